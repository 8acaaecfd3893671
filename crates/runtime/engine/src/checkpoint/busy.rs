//! Ending an abandoned checkpoint.
//!
//! CRIU must not be killed: its code would stay in the container's processes. If its runtime is killed,
//! CRIU removes that code and exits. Only then may a container be thawed, because CRIU leaves it as frozen
//! as it found it. A runtime that was called to freeze a container could also still do so after the thaw.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Timeout for CRIU's cleanup, which takes milliseconds unless the machine is overloaded.
const LIMIT: Duration = Duration::from_secs(30);

/// Interval of checks for running processes.
const INTERVAL: Duration = Duration::from_millis(10);

/// Kills the runtime that freezes a container or writes it to `dir`, and waits until CRIU has exited.
/// Blocks.
pub fn end(container: &str, dir: &Path) {
    let at_work = |process: &Path| names(process, dir) || freezes(process, container);
    let deadline = Instant::now() + LIMIT;
    loop {
        let mut busy = false;
        for process in processes() {
            if at_work(&process) {
                kill(&process, at_work);
                busy = true;
            } else if is_criu(&process) && has_open(&process, dir) {
                busy = true;
            }
        }
        if !busy {
            return;
        }
        if Instant::now() > deadline {
            tracing::error!(dir = %dir.display(), "CRIU is still running");
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

/// Whether the directory is an argument of the process, as for a runtime.
fn names(process: &Path, dir: &Path) -> bool {
    was_told(process, dir.as_os_str().as_encoded_bytes())
}

/// Whether the process is a runtime that freezes the container.
fn freezes(process: &Path, container: &str) -> bool {
    was_told(process, b"pause") && was_told(process, container.as_bytes())
}

fn was_told(process: &Path, word: &[u8]) -> bool {
    let command = orlop_fs::read_kernel_file(process.join("cmdline")).unwrap_or_default();
    command.split(|byte| *byte == 0).any(|one| one == word)
}

fn is_criu(process: &Path) -> bool {
    orlop_fs::read_kernel_file(process.join("comm")).is_ok_and(|name| name.starts_with(b"criu"))
}

fn has_open(process: &Path, dir: &Path) -> bool {
    let files = std::fs::read_dir(process.join("fd")).into_iter().flatten();
    files
        .flatten()
        .any(|file| std::fs::read_link(file.path()).is_ok_and(|target| target.starts_with(dir)))
}

fn kill(process: &Path, at_work: impl Fn(&Path) -> bool) {
    let Some(pid) = number(process).and_then(Pid::from_raw) else {
        return;
    };
    // If the arguments still match, the pidfd refers to the same process.
    if let Ok(held) = pidfd_open(pid, PidfdFlags::empty())
        && at_work(process)
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
    fn who_freezes_or_writes_the_container_is_ended_and_nobody_else() {
        let dir = tempfile::tempdir().unwrap();
        let images = dir.path().to_str().unwrap();
        let told = |words: &[&str]| {
            let mut command = Command::new("sh");
            // The shell waits for input that never comes.
            command.args(["-c", "read word", "x"]).args(words);
            let child = command.stdin(Stdio::piped()).spawn().unwrap();
            // `cmdline` shows the arguments only after exec.
            let process = PathBuf::from(format!("/proc/{}", child.id()));
            while !was_told(&process, words[0].as_bytes()) {
                std::thread::sleep(INTERVAL);
            }
            child
        };
        let elsewhere = format!("{images}/else");
        let at_work = [told(&["checkpoint", images]), told(&["pause", "c1"])];
        let others = [
            told(&["checkpoint", &elsewhere]),
            told(&["pause", "c2"]),
            told(&["resume", "c1"]),
        ];
        end("c1", dir.path());
        for mut child in at_work {
            assert_eq!(child.wait().unwrap().signal(), Some(9));
        }
        for mut child in others {
            assert!(child.try_wait().unwrap().is_none());
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}
