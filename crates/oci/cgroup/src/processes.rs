//! The processes of a cgroup: list, freeze, kill.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use orlop_fs::{KERNEL_FILE, Step, read_whole_text};
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Resource, Signal, getrlimit, pidfd_open, pidfd_send_signal,
};

use crate::cgroup::{enter, walk, write_everywhere};
use crate::hurry::Hurry;
use crate::{Cgroup, Error, signal};

/// Maximum time for a cgroup to freeze. It may never freeze if a process is blocked in the kernel.
const FREEZE_PATIENCE: Duration = Duration::from_millis(500);

/// The limits for the number of pidfds that are open at a time.
const AT_A_TIME: RangeInclusive<u64> = 256..=8192;

impl Cgroup {
    /// Returns the processes in it and below it, ordered by PID.
    pub fn processes(&self) -> Result<Vec<i32>, Error> {
        let mut found = BTreeSet::new();
        for directory in self.all_directories() {
            collect(&directory, &mut found)?;
        }
        Ok(found.into_iter().collect())
    }

    /// Returns the processes in one hierarchy. Those of version 1 could differ, but a count does not need all of them.
    pub fn processes_in_one(&self) -> Result<Vec<i32>, Error> {
        let mut found = BTreeSet::new();
        let governing = self.directory("pids").or_else(|| self.directory("memory"));
        match governing {
            Some(directory) => collect_cheaply(&directory, &mut found)?,
            None => return self.processes(),
        }
        Ok(found.into_iter().collect())
    }

    /// Freezes all processes in it and below it.
    pub fn freeze(&self) -> Result<(), Error> {
        self.set_frozen(true)
    }

    /// Thaws frozen processes.
    pub fn thaw(&self) -> Result<(), Error> {
        self.set_frozen(false)
    }

    /// Thaws also processes in child cgroups that were frozen separately, which a container may do with its own. With
    /// version 1 no signal ends them before.
    pub fn thaw_all(&self) -> Result<(), Error> {
        match self.directory("freezer") {
            Some(top) if !self.hierarchies().is_v2() => {
                write_everywhere(&top, "freezer.state", "THAWED")
            }
            _ => self.thaw(),
        }
    }

    /// Kills all processes in it and below it, and waits until they are gone.
    ///
    /// A process in uninterruptible sleep stays until its device responds. Then this returns an error after `patience`,
    /// and it can be retried.
    pub fn kill(&self, patience: Duration) -> Result<(), Error> {
        let mut hurry = self.hurry();
        let killed = match self.processes() {
            Ok(processes) if processes.is_empty() => Ok(()),
            Ok(_) => self.kill_all(patience, &mut hurry),
            Err(error) => Err(error),
        };
        hurry.end();
        killed
    }

    fn kill_all(&self, patience: Duration, hurry: &mut Hurry) -> Result<(), Error> {
        let deadline = Instant::now() + patience;
        let mut pause = Duration::from_micros(200);
        loop {
            if !self.kill_once()? {
                self.signal(Signal::KILL)?;
                self.thaw_what_is_left()?;
            }
            let left = self.processes()?;
            let Some(&first) = left.first() else {
                return Ok(());
            };
            if Instant::now() >= deadline {
                return Err(Error::Busy {
                    path: self.path().to_string(),
                    count: left.len(),
                    first,
                });
            }
            hurry.on();
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }

    /// Thaws the remaining processes; those killed and their cgroup may be gone by now.
    fn thaw_what_is_left(&self) -> Result<(), Error> {
        match self.thaw_all() {
            Err(error) if error.is_not_found() => Ok(()),
            thawed => thawed,
        }
    }

    /// Lets the kernel kill all processes at once; returns false if it cannot.
    fn kill_once(&self) -> Result<bool, Error> {
        if !self.hierarchies().is_v2() {
            return Ok(false);
        }
        for directory in self.directories() {
            let file = directory.join("cgroup.kill");
            if directory.is_dir() && !file.exists() {
                return Ok(false);
            }
            match fs::write(&file, "1").map_err(Error::io("writing", file)) {
                Err(error) if !error.is_not_found() => return Err(error),
                _ => {}
            }
        }
        Ok(true)
    }

    /// Sends a signal to all processes while none of them can fork.
    pub fn signal(&self, signal: Signal) -> Result<(), Error> {
        // If freezing fails, forked processes are missed: a kill repeats this.
        let _ = self.freeze();
        let sent = self.signal_members(signal);
        // Frozen processes handle the signal when they are thawed.
        match self.thaw() {
            Err(error) if !error.is_not_found() => sent.and(Err(error)),
            _ => sent,
        }
    }

    /// Signals each member; a process that reuses a member's PID is not hit.
    fn signal_members(&self, signal: Signal) -> Result<(), Error> {
        self.signal_these(&self.processes()?, signal).map(drop)
    }

    /// Sends a signal, by a number that may be a real-time one, to one of its processes. Returns false if it has no
    /// such process, or the number is not a signal.
    pub fn signal_one(&self, pid: i32, signal: u32) -> Result<bool, Error> {
        match signal::by_number(signal) {
            Some(signal) => self.signal_these(&[pid], signal),
            None => Ok(false),
        }
    }

    fn signal_these(&self, pids: &[i32], signal: Signal) -> Result<bool, Error> {
        let mut any = false;
        for pids in pids.chunks(handles_at_a_time()) {
            let handles: Vec<_> = pids.iter().filter_map(|pid| handle(*pid)).collect();
            // A pidfd refers to the process that had the PID then. If that PID is a member now, it is the same process,
            // or the pidfd is dead. The path of a cgroup that a container nested may be too long for /proc, so the
            // cgroup is read.
            let members = self.processes()?;
            for (pid, handle) in handles {
                if members.binary_search(&pid).is_ok() {
                    any |= pidfd_send_signal(&handle, signal).is_ok();
                }
            }
        }
        Ok(any)
    }

    fn set_frozen(&self, frozen: bool) -> Result<(), Error> {
        let (file, wanted) = if self.hierarchies().is_v2() {
            (
                self.directory("cgroup")
                    .map(|dir| dir.join("cgroup.freeze")),
                if frozen { "1" } else { "0" },
            )
        } else {
            let wanted = if frozen { "FROZEN" } else { "THAWED" };
            (
                self.directory("freezer")
                    .map(|dir| dir.join("freezer.state")),
                wanted,
            )
        };
        let file = file.ok_or(Error::NoController("freezer"))?;
        let deadline = Instant::now() + FREEZE_PATIENCE;
        let mut pause = Duration::from_micros(100);
        loop {
            // Version 1 freezes new members only when the state is written again.
            fs::write(&file, wanted).map_err(Error::io("writing", &file))?;
            if self.is_frozen(&file)? == frozen {
                return Ok(());
            }
            if Instant::now() >= deadline {
                // A half frozen cgroup is worse than one that is not frozen.
                if frozen {
                    self.thaw()?;
                }
                let source = std::io::ErrorKind::TimedOut.into();
                return Err(Error::Io {
                    action: "waiting for",
                    path: file,
                    source,
                });
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(10));
        }
    }

    /// Returns whether it was frozen itself, rather than a parent. A removed cgroup counts as not frozen.
    pub fn is_frozen_itself(&self) -> Result<bool, Error> {
        let (controller, file) = if self.hierarchies().is_v2() {
            ("cgroup", "cgroup.freeze")
        } else {
            ("freezer", "freezer.self_freezing")
        };
        let Some(directory) = self.directory(controller) else {
            return Ok(false);
        };
        let file = directory.join(file);
        match orlop_fs::read_kernel_text(&file).map_err(Error::io("reading", file)) {
            Err(error) if error.is_not_found() => Ok(false),
            text => Ok(text?.trim() == "1"),
        }
    }

    fn is_frozen(&self, file: &Path) -> Result<bool, Error> {
        if !self.hierarchies().is_v2() {
            let text = orlop_fs::read_kernel_text(file).map_err(Error::io("reading", file))?;
            return Ok(text.trim() == "FROZEN");
        }
        let events = file.with_file_name("cgroup.events");
        let text = orlop_fs::read_kernel_text(&events).map_err(Error::io("reading", events))?;
        Ok(text.lines().any(|line| line == "frozen 1"))
    }
}

/// Returns the processes in a cgroup's directory and in all below it, ordered by PID.
pub fn processes_below(directory: &Path) -> Result<Vec<i32>, Error> {
    let mut found = BTreeSet::new();
    collect_cheaply(directory, &mut found)?;
    Ok(found.into_iter().collect())
}

/// Returns the processes in a cgroup's directory, without those below it.
pub fn processes_in(directory: &Path) -> Result<Vec<i32>, Error> {
    let mut found = BTreeSet::new();
    collect_own(directory, &mut found)?;
    Ok(found.into_iter().collect())
}

/// Adds the processes in a cgroup directory and in all below it.
pub(crate) fn collect(directory: &Path, found: &mut BTreeSet<i32>) -> Result<(), Error> {
    let failed = |error: Errno| Error::io("listing", directory)(error.into());
    let Some(mut walk) = walk(directory)? else {
        return Ok(());
    };
    collect_at(walk.here(), directory, found)?;
    while let Some(step) = walk.next().map_err(failed)? {
        let Step::Entry(entry) = step else { continue };
        let depth = walk.depth();
        enter(&mut walk, &entry).map_err(failed)?;
        if walk.depth() > depth {
            collect_at(walk.here(), directory, found)?;
        }
    }
    Ok(())
}

/// Adds the processes without listing a directory that has no children, as most: the kernel counts children as links.
fn collect_cheaply(directory: &Path, found: &mut BTreeSet<i32>) -> Result<(), Error> {
    const LINKS_OF_ITS_OWN: u64 = 2;
    let links = fs::metadata(directory).map_or(0, |metadata| metadata.nlink());
    if links == LINKS_OF_ITS_OWN {
        return collect_own(directory, found);
    }
    collect(directory, found)
}

fn collect_own(directory: &Path, found: &mut BTreeSet<i32>) -> Result<(), Error> {
    match File::open(directory) {
        Ok(opened) => collect_at(opened.as_fd(), directory, found),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Error::io("opening", directory)(error)),
    }
}

/// Adds the processes of one cgroup, which is `top` or a cgroup below it.
fn collect_at(at: BorrowedFd<'_>, top: &Path, found: &mut BTreeSet<i32>) -> Result<(), Error> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let read = |name: &str| {
        openat(at, name, flags, Mode::empty())
            .map_err(io::Error::from)
            .and_then(|file| read_whole_text(File::from(file), KERNEL_FILE))
    };
    let read = match read("cgroup.procs") {
        // A threaded cgroup lists only threads; its processes are listed in the domain cgroup.
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => read("cgroup.threads"),
        read => read,
    };
    match read.map_err(Error::io("reading processes of", top)) {
        Ok(text) => found.extend(text.lines().filter_map(|line| line.parse::<i32>().ok())),
        Err(error) if error.is_not_found() => {}
        Err(error) => return Err(error),
    }
    // 0 stands for a process of another PID namespace, which cannot be signalled from here.
    found.remove(&0);
    Ok(())
}

/// Returns a quarter of the limit of open files. The lower it is, the more often all members are listed.
fn handles_at_a_time() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    (limit / 4).clamp(*AT_A_TIME.start(), *AT_A_TIME.end()) as usize
}

fn handle(pid: i32) -> Option<(i32, OwnedFd)> {
    let opened = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty());
    Some((pid, opened.ok()?))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustix::process::{Rlimit, setrlimit};

    use super::*;
    use crate::{CgroupPath, Hierarchies};

    /// Returns the best time of several runs.
    fn time(work: impl Fn()) -> Duration {
        let times = (0..3).map(|_| {
            let begin = Instant::now();
            work();
            begin.elapsed()
        });
        times.min().unwrap()
    }

    #[test]
    fn a_signal_to_thousands_of_processes_does_not_list_them_dozens_of_times() {
        let limit = getrlimit(Resource::Nofile);
        let most = Rlimit {
            current: limit.maximum,
            ..limit
        };
        setrlimit(Resource::Nofile, most).unwrap();
        let mount = tempfile::tempdir().unwrap();
        let dir = mount.path().join("pod");
        fs::create_dir(&dir).unwrap();
        fs::write(mount.path().join("cgroup.controllers"), "").unwrap();
        // None of them exists: the kernel assigns no such PIDs.
        let pids = (0..16_000).map(|n| format!("{}\n", (1 << 23) + n));
        fs::write(dir.join("cgroup.procs"), pids.collect::<String>()).unwrap();
        let line = format!("1 0 0:1 / {} rw - cgroup2 x rw\n", mount.path().display());
        let table = orlop_fs::Mountinfo::from_text(line.as_str());
        let hierarchies = Arc::new(Hierarchies::from_mounts(&table).unwrap());
        let cgroup = Cgroup::new(hierarchies, CgroupPath::parse("/pod").unwrap());
        let listed = time(|| assert_eq!(cgroup.processes().unwrap().len(), 16_000));
        let signalled = time(|| cgroup.signal_members(Signal::KILL).unwrap());
        let limit = listed * 30 + Duration::from_millis(20);
        assert!(signalled < limit, "{signalled:?}, listed in {listed:?}");
    }
}
