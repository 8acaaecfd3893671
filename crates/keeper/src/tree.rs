//! All that descends from a process.
//!
//! In a PID namespace, orphans become children of the namespace's init, so that descent alone does
//! not find them; but an exec'd command leads a session of its own, or is in the process group of
//! the runtime that was called for it, and they stay in these unless they leave them. A process
//! that is orphaned and leaves both, as a daemon does on purpose, is not found.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

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
    /// A process whose mounts all but a living root must see.
    pub(crate) peer: Option<i32>,
}

/// Signals a tree. For SIGKILL its processes are stopped first, so that none gets away by forking.
pub(crate) fn signal(tree: Tree, number: u32) {
    let Some(signal) = Signal::from_named_raw(number as i32) else {
        return;
    };
    let Tree { root, alive, .. } = tree;
    let mounts = tree.peer.and_then(mounts_of);
    let mut found: BTreeMap<i32, OwnedFd> = BTreeMap::new();
    for _ in 0..ROUNDS {
        let table = processes();
        let mut fresh = false;
        for (&pid, process) in &table {
            if found.contains_key(&pid) || !belongs(&table, pid, process, tree) {
                continue;
            }
            // The number of a session may be another's by now.
            let vouched = pid == root && alive;
            if !vouched && mounts.is_some() && mounts_of(pid) != mounts {
                continue;
            }
            if let Some(handle) = hold(pid, process) {
                if signal == Signal::KILL {
                    let _ = pidfd_send_signal(&handle, Signal::STOP);
                }
                found.insert(pid, handle);
                fresh = true;
            }
        }
        if !fresh || signal != Signal::KILL {
            break;
        }
    }
    for handle in found.values() {
        let _ = pidfd_send_signal(handle, signal);
    }
}

/// The session that a process has been put into, if it is not ours.
pub(crate) fn session_of(pid: i32) -> Option<i32> {
    let own = stat(rustix::process::getpid().as_raw_pid())?.session;
    let session = stat(pid)?.session;
    (session != own).then_some(session)
}

/// What is known of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    parent: i32,
    group: i32,
    session: i32,
    started: u64,
}

fn belongs(table: &BTreeMap<i32, Process>, pid: i32, process: &Process, tree: Tree) -> bool {
    let Tree {
        root,
        session,
        group,
        ..
    } = tree;
    let in_session = session > 0 && process.session == session;
    let in_group = group > 0 && process.group == group;
    if pid == root || in_session || in_group {
        return true;
    }
    let mut ancestor = process.parent;
    // A table read over time could have a loop in it.
    for _ in 0..table.len() {
        if ancestor == root {
            return true;
        }
        match table.get(&ancestor) {
            Some(process) if ancestor > 1 => ancestor = process.parent,
            _ => return false,
        }
    }
    false
}

/// Takes hold of the process that `pid` was when it was looked at, and of no other.
fn hold(pid: i32, seen: &Process) -> Option<OwnedFd> {
    let handle = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
    (stat(pid)?.started == seen.started).then_some(handle)
}

fn processes() -> BTreeMap<i32, Process> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return BTreeMap::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, stat(pid)?)))
        .collect()
}

fn stat(pid: i32) -> Option<Process> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may contain anything.
    let end = text.iter().rposition(|&byte| byte == b')')?;
    let rest = std::str::from_utf8(&text[end + 1..]).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    Some(Process {
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
    })
}

fn mounts_of(pid: i32) -> Option<std::path::PathBuf> {
    fs::read_link(format!("/proc/{pid}/ns/mnt")).ok()
}
