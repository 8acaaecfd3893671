//! Finds and kills processes of the node under test.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// How long it may take until there is one of the kind that is looked for.
const LIMIT: Duration = Duration::from_secs(30);

/// A process that can be killed and nobody else by mistake, should it be gone by then.
#[derive(Debug)]
pub(super) struct Victim(OwnedFd);

impl Victim {
    /// Waits for a process of one of these names that belongs to the node `id`, but not to
    /// whoever carries one of the words `spared`.
    pub(super) async fn find(names: &[&str], id: &str, spared: &[&str]) -> Self {
        let deadline = Instant::now() + LIMIT;
        loop {
            for pid in processes() {
                if is_one(pid, names, id, spared)
                    && let Some(handle) = Pid::from_raw(pid)
                    && let Ok(handle) = pidfd_open(handle, PidfdFlags::empty())
                    // Another process may have got the id before it was opened.
                    && is_one(pid, names, id, spared)
                {
                    return Self(handle);
                }
            }
            assert!(Instant::now() < deadline, "there is never any of {names:?}");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Whether it was still there to be killed.
    pub(super) fn kill(self) -> bool {
        pidfd_send_signal(&self.0, Signal::KILL).is_ok()
    }
}

fn processes() -> Vec<i32> {
    let entries = fs::read_dir("/proc").expect("read /proc").flatten();
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    entries.filter_map(number).collect()
}

fn is_one(pid: i32, names: &[&str], id: &str, spared: &[&str]) -> bool {
    let read = |pid: &str, file: &str| {
        let content = fs::read(Path::new("/proc").join(pid).join(file));
        String::from_utf8_lossy(&content.unwrap_or_default()).into_owned()
    };
    let is_named = |pid: &str| names.contains(&read(pid, "comm").trim());
    let pid = &pid.to_string();
    if !is_named(pid) {
        return false;
    }
    let about = [read(pid, "cmdline"), read(pid, "cgroup")];
    let stat = read(pid, "stat");
    let after_name = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let parent = after_name.split(' ').nth(1).unwrap_or_default();
    about.iter().any(|text| text.contains(id))
        && !about.iter().any(|text| spared.iter().any(|word| text.contains(word)))
        // What it has forked has its name until it becomes another program.
        && !is_named(parent)
}
