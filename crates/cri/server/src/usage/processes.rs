//! Statistics that only the container's processes themselves reveal.

use std::ffi::CString;
use std::io::Read as _;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use orlop_cgroup::Cgroup;
use rustix::fs::{Dir, Mode, OFlags, open, readlinkat_raw};

use crate::clock;

/// Scans of processes take at most one part in this many of the time, however many processes there are.
const PART: u32 = 100;

/// The averaging period of the load, as in cAdvisor.
const LOAD_SECONDS: f64 = 10.0;

/// Scanner of a container's processes. It caches the last result to limit the time spent on scans.
#[derive(Debug, Default)]
pub struct Processes {
    last: Option<Instant>,
    due: Option<Instant>,
    seen: Seen,
    load: Load,
}

/// The result of the last scan.
#[derive(Debug, Clone, Copy, Default)]
pub struct Seen {
    /// Nanoseconds since 1970.
    pub at: i64,
    /// Number of processes.
    pub processes: u64,
    /// Number of open files.
    pub descriptors: u64,
    /// Number of open sockets.
    pub sockets: u64,
    /// The first process's soft limit of open files.
    pub max_open_files: Option<u64>,
    /// Tasks by state.
    pub tasks: Tasks,
    /// Average number of runnable tasks, in thousandths.
    pub load: u64,
    /// Average number of uninterruptible tasks, in thousandths.
    pub load_d: u64,
}

/// Number of processes and threads by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tasks {
    /// Running or runnable.
    pub running: u64,
    /// In an interruptible wait.
    pub sleeping: u64,
    /// Stopped by a signal or a debugger.
    pub stopped: u64,
    /// In an uninterruptible wait.
    pub uninterruptible: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Load {
    running: f64,
    uninterruptible: f64,
}

impl Processes {
    /// Scans the processes if a scan is due. `first` is the container's first process.
    pub fn look(&mut self, cgroup: &Cgroup, first: Option<u32>) -> Seen {
        let begin = Instant::now();
        if self.due.is_some_and(|due| begin < due) {
            return self.seen;
        }
        let mut seen = Seen {
            at: clock::now(),
            max_open_files: first.and_then(max_open_files),
            ..Seen::default()
        };
        let pids = cgroup.processes_in_one().unwrap_or_default();
        seen.processes = pids.len() as u64;
        for pid in pids {
            count_open_files(pid, &mut seen);
            count_tasks(pid, &mut seen.tasks);
        }
        let since = self.last.map(|last| begin.saturating_duration_since(last));
        self.load.note(seen.tasks, since);
        let millis = |load: f64| (load * 1000.0).round() as u64;
        seen.load = millis(self.load.running);
        seen.load_d = millis(self.load.uninterruptible);
        let end = Instant::now();
        self.last = Some(begin);
        self.due = Some(end + (end - begin) * PART);
        self.seen = seen;
        seen
    }
}

impl Load {
    /// Updates the exponentially decaying average, at any interval.
    fn note(&mut self, tasks: Tasks, since: Option<Duration>) {
        let kept = since.map_or(0.0, |since| (-since.as_secs_f64() / LOAD_SECONDS).exp());
        let mix = |old: f64, new: u64| old * kept + new as f64 * (1.0 - kept);
        self.running = mix(self.running, tasks.running);
        self.uninterruptible = mix(self.uninterruptible, tasks.uninterruptible);
    }
}

/// Counts the open files of a process; one that exits meanwhile is skipped.
fn count_open_files(pid: i32, seen: &mut Seen) {
    let Some((directory, entries)) = list(&format!("/proc/{pid}/fd")) else {
        return;
    };
    for entry in entries {
        let mut target = [MaybeUninit::<u8>::uninit(); 8];
        seen.descriptors += 1;
        let read = readlinkat_raw(&directory, &*entry, &mut target);
        if read.is_ok_and(|(target, _)| target.starts_with(b"socket:")) {
            seen.sockets += 1;
        }
    }
}

fn count_tasks(pid: i32, tasks: &mut Tasks) {
    let Some((state, threads)) = state(&format!("/proc/{pid}/stat")) else {
        return;
    };
    if threads == 1 {
        tasks.count(state);
        return;
    }
    let path = format!("/proc/{pid}/task");
    let Some((_, entries)) = list(&path) else {
        return;
    };
    for entry in entries {
        let thread = entry.to_string_lossy();
        if let Some((state, _)) = self::state(&format!("{path}/{thread}/stat")) {
            tasks.count(state);
        }
    }
}

impl Tasks {
    /// Counts a task by the state letter of proc(5).
    fn count(&mut self, state: u8) {
        match state {
            b'R' => self.running += 1,
            b'S' | b'I' => self.sleeping += 1,
            b'T' | b't' => self.stopped += 1,
            b'D' => self.uninterruptible += 1,
            // Dead tasks are not counted.
            _ => {}
        }
    }
}

/// Lists a directory without `.` and `..`.
fn list(path: &str) -> Option<(OwnedFd, impl Iterator<Item = CString> + use<>)> {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    let directory = open(path, flags, Mode::empty()).ok()?;
    let entries = Dir::read_from(&directory).ok()?;
    let names = entries
        .filter_map(Result::ok)
        .filter(|entry| !matches!(entry.file_name().to_bytes(), b"." | b".."))
        .map(|entry| entry.file_name().to_owned());
    Some((directory, names))
}

/// Returns the state of a process or thread, and the number of threads of the process.
fn state(path: &str) -> Option<(u8, u64)> {
    let mut text = [0; 512];
    let read = std::fs::File::open(path).ok()?.read(&mut text).ok()?;
    // The name may contain any character; the last parenthesis ends it.
    let text = &text[..read];
    let name = text.iter().rposition(|byte| *byte == b')')?;
    let mut words = text.get(name + 2..)?.split(|byte| *byte == b' ');
    let state = *words.next()?.first()?;
    // The 20th field of proc(5), where the state is the 3rd.
    let threads = std::str::from_utf8(words.nth(16)?).ok()?.parse().ok()?;
    Some((state, threads))
}

/// Reads the soft limit of open files of a process.
fn max_open_files(pid: u32) -> Option<u64> {
    let text = orlop_fs::read_kernel_text(format!("/proc/{pid}/limits")).ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_files_are_counted() {
        let (_one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut seen = Seen::default();
        count_open_files(std::process::id().cast_signed(), &mut seen);
        assert!(seen.sockets >= 2, "{seen:?}");
        assert!(seen.descriptors > seen.sockets, "{seen:?}");
        assert!(max_open_files(std::process::id()).unwrap() > 0);
    }

    #[test]
    fn our_own_threads_are_counted_by_what_they_do() {
        let (done, wait) = std::sync::mpsc::channel::<()>();
        let sleeper = std::thread::spawn(move || wait.recv());
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let mut tasks = Tasks::default();
            count_tasks(std::process::id().cast_signed(), &mut tasks);
            // This process itself runs during the scan.
            if tasks.running >= 1 && tasks.sleeping >= 1 {
                break;
            }
            assert!(Instant::now() < deadline, "{tasks:?}");
        }
        drop(done);
        let _ = sleeper.join();
    }

    #[test]
    fn load_forgets_what_is_long_ago() {
        let mut load = Load::default();
        let tasks = |running| Tasks {
            running,
            ..Tasks::default()
        };
        load.note(tasks(4), None);
        assert!((load.running - 4.0).abs() < 1e-9);
        load.note(tasks(0), Some(Duration::from_secs(10)));
        assert!((load.running - 4.0 / std::f64::consts::E).abs() < 1e-9);
        load.note(tasks(2), Some(Duration::from_hours(1)));
        assert!((load.running - 2.0).abs() < 1e-9);
    }
}
