//! Killing an exec command with all its descendants, if its processes run on the host.

use std::collections::BTreeSet;
use std::fs;

use orlop_fs::children_of;
use rustix::process::{Pid, Signal, kill_process};

/// How often to look for processes that were forked meanwhile.
const ROUNDS: usize = 16;

/// A command whose processes can be found because it leads a session.
#[derive(Debug)]
pub(crate) struct Command {
    pid: u32,
    mounts: std::path::PathBuf,
    /// The ancestor of all the pod's processes.
    top: i32,
}

impl Command {
    /// Recognises a command on the host: a child of the shim that sees the container's mounts. A VM shim reports the
    /// VM's process for every process in it; that is not a command.
    pub(crate) fn on_host(pid: u32, container: u32, shim: u32) -> Option<Self> {
        let mounts = mounts_of(pid)?;
        let process = Process::of(pid)?;
        let own = pid != container && process.parent == shim && process.session == pid;
        let sees_the_same = Some(&mounts) == mounts_of(container).as_ref();
        (own && sees_the_same).then(|| Self {
            pid,
            mounts,
            top: keeper_above(shim),
        })
    }

    /// Kills the processes of the command's session until none is left.
    pub(crate) fn kill(&self) {
        for _ in 0..ROUNDS {
            let members = self.members();
            if members.is_empty() {
                return;
            }
            for pid in members {
                if let Some(pid) = Pid::from_raw(pid as i32) {
                    let _ = kill_process(pid, Signal::KILL);
                }
            }
        }
    }

    /// Lists the processes of the command's session. They are descendants of the keeper, the pod's subreaper.
    fn members(&self) -> Vec<u32> {
        let (mut seen, mut ahead) = (BTreeSet::new(), children_of(self.top));
        if ahead.is_empty() {
            // The kernel does not list children.
            let entries = fs::read_dir("/proc").into_iter().flatten();
            let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
            return pids.filter(|pid| self.has(*pid)).collect();
        }
        while let Some(pid) = ahead.pop() {
            if seen.insert(pid.cast_unsigned()) {
                ahead.extend(children_of(pid));
            }
        }
        seen.into_iter().filter(|pid| self.has(*pid)).collect()
    }

    fn has(&self, pid: u32) -> bool {
        let process = Process::of(pid);
        process.is_some_and(|it| it.session == self.pid && it.state != b'Z')
            && mounts_of(pid).as_ref() == Some(&self.mounts)
    }
}

/// Returns the topmost ancestor of a shim below init; the shim's orphans are reparented below it.
fn keeper_above(shim: u32) -> i32 {
    let mut top = shim;
    while let Some(process) = Process::of(top).filter(|it| it.parent > 1) {
        top = process.parent;
    }
    top.cast_signed()
}

struct Process {
    state: u8,
    parent: u32,
    session: u32,
}

impl Process {
    fn of(pid: u32) -> Option<Self> {
        let text = orlop_fs::read_kernel_file(format!("/proc/{pid}/stat")).ok()?;
        // The name in parentheses may contain any character.
        let end = text.iter().rposition(|&byte| byte == b')')?;
        let rest = std::str::from_utf8(&text[end + 1..]).ok()?;
        let mut fields = rest.split_ascii_whitespace();
        Some(Self {
            state: *fields.next()?.as_bytes().first()?,
            parent: fields.next()?.parse().ok()?,
            session: fields.nth(1)?.parse().ok()?,
        })
    }
}

fn mounts_of(pid: u32) -> Option<std::path::PathBuf> {
    fs::read_link(format!("/proc/{pid}/ns/mnt")).ok()
}

#[cfg(test)]
mod tests {
    use super::{Command, Process};

    #[test]
    fn nothing_but_a_command_of_its_own_is_one() {
        let own = std::process::id();
        let parent = Process::of(own).unwrap().parent;
        // It leads no session, is the container's own process, or is another process's child.
        assert!(Command::on_host(own, own, parent).is_none());
        assert!(Command::on_host(own, parent, own).is_none());
        assert!(Command::on_host(u32::MAX, 1, 1).is_none());
    }
}
