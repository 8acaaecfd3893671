//! All that descends from a process.
//!
//! In a PID namespace, orphans become children of the namespace's init, so that descent alone does
//! not find them; but an exec'd command leads a session of its own, or is in the process group of
//! the runtime that was called for it, and they stay in these unless they leave them. A process
//! that is orphaned and leaves both, as a daemon does on purpose, is not found.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::processes::{Process, Processes};
use crate::sys::signal::by_number;

/// How many times the tree is searched for processes that were not there the last time.
const ROUNDS: usize = 16;

/// A process tree, by what its members have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tree {
    /// The process that they descend from.
    pub(crate) root: i32,
    /// The session that they may be in instead; 0 for none.
    pub(crate) session: i32,
    /// The process group that they may be in instead; 0 for none.
    pub(crate) group: i32,
    /// Whether the root is known to be alive. If not, its number may be another's by now.
    pub(crate) alive: bool,
    /// A process whose mounts all but a living root must see. Without one they must see the living
    /// root's, or descend from it. What nobody vouches for is not signalled.
    pub(crate) peer: Option<i32>,
}

/// Signals a tree. For SIGKILL its processes are stopped first, so that none gets away by forking,
/// and looked for once more afterwards: a stop does not hold up a fork that is under way, whose
/// child may show itself after the last look. A kill does.
pub(crate) fn signal(tree: Tree, number: u32) {
    let Some(signal) = by_number(number) else {
        return;
    };
    let mut search = Search::new(tree);
    if signal != Signal::KILL {
        for pid in search.look() {
            search.send(pid, signal);
        }
        return;
    }
    search.chase(Signal::STOP);
    for pid in search.found.keys() {
        search.send(*pid, Signal::KILL);
    }
    search.mark_orphans();
    search.chase(Signal::KILL);
}

/// Signals a child that was not reaped yet.
pub(crate) fn signal_one(pid: i32, number: u32) {
    // Best effort, as for a tree: what is ending anyway takes no signal.
    if let (Some(pid), Some(signal)) = (Pid::from_raw(pid), by_number(number)) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Why a process belongs to a tree.
#[derive(Clone, Copy)]
enum Kin {
    /// It has the root's number.
    Root,
    /// It descends from who has that.
    Descendant,
    /// It is in a session or group of a number that was the tree's.
    Number,
}

/// The search for the processes of a tree.
struct Search {
    tree: Tree,
    /// What all but a living root must see; `None` where there is nobody to say.
    mounts: Option<PathBuf>,
    sessions: BTreeSet<i32>,
    groups: BTreeSet<i32>,
    found: BTreeMap<i32, Process>,
}

impl Search {
    fn new(tree: Tree) -> Self {
        let known = |number: i32| (number > 0).then_some(number).into_iter().collect();
        Self {
            // A zombie sees none.
            mounts: tree
                .peer
                .and_then(mounts_of)
                .or_else(|| mounts_of(tree.root).filter(|_| tree.alive)),
            sessions: known(tree.session),
            groups: known(tree.group),
            found: BTreeMap::new(),
            tree,
        }
    }

    /// Signals all that is found, until nothing more is.
    fn chase(&mut self, signal: Signal) {
        for _ in 0..ROUNDS {
            let fresh = self.look();
            for pid in &fresh {
                self.send(*pid, signal);
            }
            if fresh.is_empty() {
                break;
            }
        }
    }

    /// Finds those that were not found before.
    fn look(&mut self) -> Vec<i32> {
        let pod = Processes::of_pod();
        let descendants = pod.below(self.tree.root);
        let mut fresh = Vec::new();
        for (pid, process) in pod.all() {
            if self.found.contains_key(&pid) {
                continue;
            }
            let kin = if pid == self.tree.root {
                Kin::Root
            } else if descendants.contains(&pid) {
                Kin::Descendant
            } else if self.sessions.contains(&process.session)
                || self.groups.contains(&process.group)
            {
                Kin::Number
            } else {
                continue;
            };
            // The number of a session may be another's by now.
            let vouched = self.tree.alive
                && match kin {
                    Kin::Root => true,
                    Kin::Descendant => self.tree.peer.is_none(),
                    Kin::Number => false,
                };
            if !vouched && (self.mounts.is_none() || mounts_of(pid) != self.mounts) {
                continue;
            }
            self.found.insert(pid, process);
            fresh.push(pid);
        }
        fresh
    }

    /// Descent finds no child whose parent is dead, but it has its parent's session and group.
    fn mark_orphans(&mut self) {
        let Some(own) = Process::of(rustix::process::getpid().as_raw_pid()) else {
            return;
        };
        for process in self.found.values() {
            if process.session != own.session {
                self.sessions.insert(process.session);
            }
            if process.group != own.group {
                self.groups.insert(process.group);
            }
        }
    }

    fn send(&self, pid: i32, signal: Signal) {
        let process = self.found.get(&pid);
        if let Some(handle) = process.and_then(|process| hold(pid, process)) {
            let _ = pidfd_send_signal(handle, signal);
        }
    }
}

/// The session that a process has been put into, if it is not ours.
pub(crate) fn session_of(pid: i32) -> Option<i32> {
    let own = rustix::process::getsid(None).ok()?;
    let session = rustix::process::getsid(Pid::from_raw(pid)).ok()?;
    (session != own).then_some(session.as_raw_pid())
}

/// Takes hold of the process that `pid` was when it was looked at, and of no other.
fn hold(pid: i32, seen: &Process) -> Option<OwnedFd> {
    let handle = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
    (Process::of(pid)?.started == seen.started).then_some(handle)
}

fn mounts_of(pid: i32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/ns/mnt")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::process::{Child, Command};

    fn sleeper() -> Child {
        let mut command = Command::new("sleep");
        command.arg("1000").process_group(0).spawn().unwrap()
    }

    /// The signal that ends a process which is now asked to end, unless it was killed before.
    fn ended_by(mut child: Child) -> Option<i32> {
        let _ = rustix::process::kill_process(Pid::from_child(&child), Signal::TERM);
        child.wait().unwrap().signal()
    }

    #[test]
    fn a_stranger_with_a_reused_number_is_spared_when_the_container_is_a_zombie() {
        let mut zombie = Command::new("true").spawn().unwrap();
        let pid = Pid::from_child(&zombie);
        let options =
            rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
        rustix::process::waitid(rustix::process::WaitId::Pid(pid), options).unwrap();
        let stranger = sleeper();
        let tree = Tree {
            root: i32::MAX,
            session: 0,
            group: stranger.id() as i32,
            alive: false,
            peer: Some(pid.as_raw_pid()),
        };
        signal(tree, 9);
        assert_eq!(ended_by(stranger), Some(15), "it was killed");
        zombie.wait().unwrap();
    }

    #[test]
    fn what_a_living_command_vouches_for_is_signalled_without_its_container() {
        let (root, other) = (sleeper(), sleeper());
        let tree = Tree {
            root: root.id() as i32,
            session: 0,
            group: other.id() as i32,
            alive: true,
            peer: None,
        };
        signal(tree, 9);
        assert_eq!((ended_by(root), ended_by(other)), (Some(9), Some(9)));
    }
}
