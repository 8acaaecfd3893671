//! Signals all descendants of a process.
//!
//! In a PID namespace, orphans become children of the namespace's init, so descent alone does not find them. But an
//! exec'd command leads its own session, or is in the process group of its runtime call, and its orphans stay in these
//! unless they leave them. An orphan that leaves both, as a daemon does on purpose, is not found.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::processes::{Process, Processes};
use crate::sys::signal::by_number;

/// Maximum number of searches for new processes in the tree.
const ROUNDS: usize = 16;

/// A process tree, described by what its members have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tree {
    /// The process that they descend from.
    pub(crate) root: i32,
    /// The session that orphans may be in; 0 for none.
    pub(crate) session: i32,
    /// The process group that orphans may be in; 0 for none.
    pub(crate) group: i32,
    /// Whether the root is known to be alive. If not, its PID may be reused.
    pub(crate) alive: bool,
    /// A process whose mount namespace all processes but a living root must share. Without one they must share the
    /// living root's, or descend from it. A process that fails this check is not signalled.
    pub(crate) peer: Option<i32>,
}

/// Signals a tree. For SIGKILL its processes are stopped first, so that none escapes by forking, and the tree is
/// searched once more afterwards. A stop does not interrupt a fork in progress, whose child may appear after the last
/// search. A kill does.
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
    // Errors are ignored, as for a tree: a process that is ending accepts no signal.
    if let (Some(pid), Some(signal)) = (Pid::from_raw(pid), by_number(number)) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// The reason why a process belongs to a tree.
#[derive(Clone, Copy)]
enum Kin {
    /// Its PID is the root's.
    Root,
    /// It descends from the process with the root's PID.
    Descendant,
    /// Its session or group has an ID that belonged to the tree.
    Number,
}

/// The search for the processes of a tree.
struct Search {
    tree: Tree,
    /// The mount namespace that all but a living root must share; `None` if it is unknown.
    mounts: Option<PathBuf>,
    sessions: BTreeSet<i32>,
    groups: BTreeSet<i32>,
    found: BTreeMap<i32, Process>,
}

impl Search {
    fn new(tree: Tree) -> Self {
        let known = |number: i32| (number > 0).then_some(number).into_iter().collect();
        Self {
            // A zombie has no mount namespace.
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

    /// Signals all processes found, until no more are found.
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

    /// Returns processes that were not found before.
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
            // The session's ID may be reused by now.
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

    /// Marks sessions and groups of orphans: descent finds no child whose parent is dead.
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

/// Returns the session of a process, if it is not the keeper's.
pub(crate) fn session_of(pid: i32) -> Option<i32> {
    let own = rustix::process::getsid(None).ok()?;
    let session = rustix::process::getsid(Pid::from_raw(pid)).ok()?;
    (session != own).then_some(session.as_raw_pid())
}

/// Opens a pidfd of a process, if the PID still belongs to the process in `seen`.
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

    /// Returns the signal that ends a process asked to terminate now, unless it was killed before.
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
