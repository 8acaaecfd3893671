//! Who is still at work on a checkpoint that nobody waits for any more.
//!
//! CRIU must not be killed: what it has put into the processes would stay there. Without the
//! runtime that called it, it undoes that and ends; only then may a container be thawed, for CRIU
//! leaves it as frozen as it found it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// CRIU undoes its work in milliseconds, unless the machine has no time for it.
const LIMIT: Duration = Duration::from_secs(30);

/// How often it is looked at.
const INTERVAL: Duration = Duration::from_millis(10);

/// Ends the runtime that writes to `dir`, and waits until CRIU has ended. Blocks.
pub fn end(dir: &Path) {
    let deadline = Instant::now() + LIMIT;
    loop {
        let mut busy = false;
        for process in processes() {
            if names(&process, dir) {
                kill(&process, dir);
                busy = true;
            } else if is_criu(&process) && has_open(&process, dir) {
                busy = true;
            }
        }
        if !busy {
            return;
        }
        if Instant::now() > deadline {
            tracing::error!(dir = %dir.display(), "CRIU is still at work");
            return;
        }
        std::thread::sleep(INTERVAL);
    }
}

fn processes() -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| number(path).is_some())
}

fn number(process: &Path) -> Option<i32> {
    process.file_name()?.to_str()?.parse().ok()
}

/// Whether it was told of the directory, as a runtime is.
fn names(process: &Path, dir: &Path) -> bool {
    let command = std::fs::read(process.join("cmdline")).unwrap_or_default();
    command
        .split(|byte| *byte == 0)
        .any(|word| word == dir.as_os_str().as_encoded_bytes())
}

fn is_criu(process: &Path) -> bool {
    std::fs::read(process.join("comm")).is_ok_and(|name| name.starts_with(b"criu"))
}

fn has_open(process: &Path, dir: &Path) -> bool {
    let files = std::fs::read_dir(process.join("fd")).into_iter().flatten();
    files
        .flatten()
        .any(|file| std::fs::read_link(file.path()).is_ok_and(|target| target.starts_with(dir)))
}

fn kill(process: &Path, dir: &Path) {
    let Some(pid) = number(process).and_then(Pid::from_raw) else {
        return;
    };
    // It is the same process after it is held, if it still has these words.
    if let Ok(held) = pidfd_open(pid, PidfdFlags::empty())
        && names(process, dir)
    {
        let _ = pidfd_send_signal(held, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn who_was_told_of_the_directory_is_ended_and_nobody_else() {
        let dir = tempfile::tempdir().unwrap();
        let told = |path: &Path| {
            let mut command = Command::new("sh");
            // It waits for words that nobody says.
            command.args(["-c", "read word", "x"]).arg(path);
            command.stdin(Stdio::piped()).spawn().unwrap()
        };
        let (mut at_work, mut other) = (told(dir.path()), told(&dir.path().join("else")));
        // It has its words only once it runs.
        while !names(
            &PathBuf::from(format!("/proc/{}", at_work.id())),
            dir.path(),
        ) {
            std::thread::sleep(INTERVAL);
        }
        end(dir.path());
        assert_eq!(at_work.wait().unwrap().signal(), Some(9));
        assert!(other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
