//! Kills runtimes whose caller is dead.
//!
//! A runtime is killed when its caller dies. Until then it may still create a cgroup, a file or a directory, so a
//! cleanup must wait for its end.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Maximum number of bytes of a command line that are read. Those of runtimes are short.
const LONGEST: u64 = 64 << 10;

/// Kills runtime processes for the container `id` whose state is below `root`, and waits until they are gone. Processes
/// of the caller's own program are spared.
///
/// A runtime's command line identifies both: the ID is one of its words or the end of its bundle path. Another word,
/// such as `--root` or the log's path, is below the root directory.
pub fn end(root: &Path, id: &str, patience: Duration) -> io::Result<()> {
    let deadline = Instant::now() + patience;
    loop {
        let found = find(root, id)?;
        if found.is_empty() {
            return Ok(());
        }
        for process in &found {
            // A process that has ended meanwhile is no error.
            let _ = pidfd_send_signal(process, Signal::KILL);
        }
        if !found.iter().all(|process| ends(process, deadline)) {
            let problem = format!(
                "a runtime process of container {id} still runs {patience:?} after SIGKILL"
            );
            return Err(io::Error::new(io::ErrorKind::TimedOut, problem));
        }
    }
}

fn find(root: &Path, id: &str) -> io::Result<Vec<OwnedFd>> {
    let own = program("self");
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")?.filter_map(Result::ok) {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // The pidfd is opened before the process is checked, because its PID may be reused afterwards.
        let Some(Ok(process)) = Pid::from_raw(pid).map(|pid| pidfd_open(pid, PidfdFlags::empty()))
        else {
            continue;
        };
        let words = words_of(&entry.path());
        if is_about(&words, root, id) && program(name.to_str().unwrap_or_default()) != own {
            found.push(process);
        }
    }
    Ok(found)
}

/// Returns the command line of a process, or nothing if none of its threads can run code anymore.
///
/// The command line disappears with the first thread. After SIGKILL another thread may still finish a system call,
/// for example `mkdir` of a cgroup, so its command line is read instead.
fn words_of(process: &Path) -> Vec<u8> {
    let words = command_line(&process.join("cmdline"));
    if !words.is_empty() {
        return words;
    }
    let threads = fs::read_dir(process.join("task")).into_iter().flatten();
    let mut threads = threads.filter_map(Result::ok);
    let words = threads.find_map(|thread| {
        let words = command_line(&thread.path().join("cmdline"));
        (!words.is_empty()).then_some(words)
    });
    words.unwrap_or_default()
}

#[expect(clippy::disallowed_methods, reason = "`take` limits it")]
fn command_line(path: &Path) -> Vec<u8> {
    let mut words = Vec::new();
    // The part read before an error is enough.
    let _ = File::open(path).and_then(|file| file.take(LONGEST).read_to_end(&mut words));
    words
}

fn is_about(command_line: &[u8], root: &Path, id: &str) -> bool {
    let words = command_line.split(|byte| *byte == 0);
    let words: Vec<&str> = words
        .filter_map(|word| std::str::from_utf8(word).ok())
        .collect();
    let bundles = |path: &str| Path::new(path).file_name() == Some(id.as_ref());
    let names = words.iter().enumerate().any(|(at, word)| {
        *word == id
            || word.strip_prefix("--bundle=").is_some_and(bundles)
            || (*word == "--bundle" && words.get(at + 1).is_some_and(|path| bundles(path)))
    });
    names
        && words
            .iter()
            .any(|word| Path::new(value(word)).starts_with(root))
}

/// Returns a word, or the value after an option's name in it.
fn value(word: &str) -> &str {
    match word.split_once('=') {
        Some((name, value)) if name.starts_with('-') => value,
        _ => word,
    }
}

fn program(pid: &str) -> Option<PathBuf> {
    fs::read_link(Path::new("/proc").join(pid).join("exe")).ok()
}

fn ends(process: &OwnedFd, deadline: Instant) -> bool {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).unwrap_or_default();
        match poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&left)) {
            Ok(ready) => return ready > 0,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

#[cfg(test)]
#[allow(unsafe_code)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    fn is_alive(child: &mut Child) -> bool {
        child.try_wait().unwrap().is_none()
    }

    /// Returns a shell that waits, with extra words on its command line.
    fn waiting(words: &[&str]) -> Child {
        Command::new("/bin/sh")
            .args(["-c", "while :; do sleep 0.01; done", "runtime"])
            .args(words)
            .spawn()
            .unwrap()
    }

    #[test]
    fn runtimes_of_that_container_and_that_root_are_gone_and_no_others() {
        let root = tempfile::tempdir().unwrap();
        let (root, id) = (root.path(), "c0ffee");
        let below = root.join("log").display().to_string();
        let beside = format!("{}-too", root.display());
        let mut wanted = waiting(&["--root", root.to_str().unwrap(), "create", id]);
        let mut by_log = waiting(&["--log", &below, "exec", id, "more"]);
        let mut others = [
            waiting(&["--root", root.to_str().unwrap(), "create", "c0ffee2"]),
            waiting(&["--root", &beside, "create", id]),
            waiting(&["exec", "-it", id]),
        ];
        // A new process has its own command line only after it executed its program.
        let deadline = Instant::now() + PATIENCE;
        while find(root, id).unwrap().len() < 2 {
            assert!(Instant::now() < deadline, "never found");
            std::thread::yield_now();
        }
        end(root, id, PATIENCE).unwrap();
        assert!(!is_alive(&mut wanted) && !is_alive(&mut by_log));
        for other in &mut others {
            assert!(is_alive(other));
            other.kill().unwrap();
            other.wait().unwrap();
        }
        end(root, id, PATIENCE).unwrap();
    }

    /// Set in the process that the test below starts: its own program under another name.
    const EXIT_FIRST_THREAD: &str = "ORLOP_TEST_EXIT_FIRST_THREAD";

    extern "C" fn exit_thread(_signal: libc::c_int) {
        // SAFETY: ends the thread that received the signal, which only waits for the thread of the test.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    }

    /// Exits the first thread of this process. The calling thread, which runs the test, continues.
    fn exit_first_thread() {
        let first = std::process::id();
        let handler = exit_thread as *const () as libc::sighandler_t;
        // SAFETY: the handler makes a single system call.
        unsafe { libc::signal(libc::SIGUSR1, handler) };
        // SAFETY: the signal goes to a thread of this process.
        let sent = unsafe { libc::syscall(libc::SYS_tgkill, first, first, libc::SIGUSR1) };
        assert_eq!(sent, 0);
    }

    #[test]
    fn a_runtime_whose_first_thread_has_exited_is_waited_for() {
        if std::env::var_os(EXIT_FIRST_THREAD).is_some() {
            exit_first_thread();
            std::thread::sleep(PATIENCE * 3);
            return;
        }
        let root = tempfile::tempdir().unwrap();
        let (root, id) = (root.path(), "c0ffee");
        let runtime = root.join("runtime");
        fs::copy(std::env::current_exe().unwrap(), &runtime).unwrap();
        let mut child = Command::new(&runtime)
            .env(EXIT_FIRST_THREAD, "yes")
            .arg("--exact")
            .arg("orphans::tests::a_runtime_whose_first_thread_has_exited_is_waited_for")
            // The test harness takes these as names of other tests.
            .args([root.to_str().unwrap(), "create", id])
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let status = Path::new("/proc")
            .join(child.id().to_string())
            .join("status");
        let deadline = Instant::now() + PATIENCE;
        while !String::from_utf8_lossy(&command_line(&status)).contains("State:\tZ") {
            assert!(Instant::now() < deadline, "the first thread never exited");
            std::thread::yield_now();
        }
        assert!(is_alive(&mut child), "another thread lives");
        end(root, id, PATIENCE).unwrap();
        assert!(!is_alive(&mut child));
    }

    #[test]
    fn a_command_line_must_tell_both() {
        let line = b"runc\0--root\0/run/x\0delete\0--force\0c1\0";
        assert!(is_about(line, Path::new("/run/x"), "c1"));
        assert!(!is_about(line, Path::new("/run"), "c"));
        assert!(!is_about(line, Path::new("/run/xy"), "c1"));
        assert!(is_about(line, Path::new("/run"), "c1"));
        assert!(!is_about(b"", Path::new("/run"), "c1"));
        // The command lines of a gVisor sandbox and its file server.
        let line =
            b"runsc-sandbox\0--root=/run/x/r\0boot\0--bundle=/run/x/c1\0--cpu-num\0two\0c1\0";
        assert!(is_about(line, Path::new("/run/x"), "c1"));
        let line = b"runsc-gofer\0--root=/run/x/r\0gofer\0--bundle\0/run/x/c1\0--spec-fd=4\0";
        assert!(is_about(line, Path::new("/run/x"), "c1"));
        assert!(!is_about(line, Path::new("/run/y"), "c1"));
        // A process that only looks at the files.
        assert!(!is_about(b"less\0/run/x/c1\0", Path::new("/run/x"), "c1"));
    }
}
