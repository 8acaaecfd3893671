//! The processes of a pod: all descendants of its keeper.
//!
//! The keeper is the parent of each container's first process, of each command and of the pod's init, and the subreaper
//! of all of them. An orphan becomes a child of its PID namespace's init, or of the keeper. So the keeper finds each
//! process of the pod by descending from itself, however many processes the node has.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

/// Facts about a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) parent: i32,
    pub(crate) group: i32,
    pub(crate) session: i32,
    pub(crate) started: u64,
    threads: u32,
}

/// Processes by PID.
#[derive(Debug)]
pub(crate) struct Processes(BTreeMap<i32, Process>);

impl Processes {
    /// Returns all descendants of this process. A process may be missing if one of its siblings or its parent ends
    /// during the search. The next search finds it.
    pub(crate) fn of_pod() -> Self {
        let own = rustix::process::getpid().as_raw_pid();
        let mut found = BTreeMap::new();
        let Some(mut ahead) = Process::of(own).and_then(|process| process.children(own)) else {
            return Self::of_node();
        };
        while let Some(pid) = ahead.pop() {
            if let Some(process) = Process::of(pid)
                && found.insert(pid, process).is_none()
            {
                ahead.extend(process.children(pid).into_iter().flatten());
            }
        }
        Self(found)
    }

    /// Returns all processes of the node, for kernels that do not list the children of a process.
    fn of_node() -> Self {
        let entries = fs::read_dir("/proc").into_iter().flatten();
        let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        Self(
            pids.filter_map(|pid| Some((pid, Process::of(pid)?)))
                .collect(),
        )
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (i32, Process)> + '_ {
        self.0.iter().map(|(&pid, &process)| (pid, process))
    }

    /// Returns the descendants of a process, which need not be alive.
    pub(crate) fn below(&self, root: i32) -> BTreeSet<i32> {
        let children = self.all().map(|(pid, process)| (process.parent, pid));
        let children: BTreeSet<(i32, i32)> = children.collect();
        let mut below = BTreeSet::new();
        let mut ahead = vec![root];
        while let Some(parent) = ahead.pop() {
            let own = children.range((parent, 0)..=(parent, i32::MAX));
            // The data was not read at one moment, so it could contain a loop.
            ahead.extend(own.map(|&(_, pid)| pid).filter(|&pid| below.insert(pid)));
        }
        below
    }
}

impl Process {
    pub(crate) fn of(pid: i32) -> Option<Self> {
        let text = read(format!("/proc/{pid}/stat").into())?;
        // The name, in parentheses, may contain anything.
        let end = text.iter().rposition(|&byte| byte == b')')?;
        let rest = std::str::from_utf8(&text[end + 1..]).ok()?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        Some(Self {
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            session: fields.get(3)?.parse().ok()?,
            threads: fields.get(17)?.parse().ok()?,
            started: fields.get(19)?.parse().ok()?,
        })
    }

    /// Returns the children of all its threads; `None` if it has ended or the kernel lists no children.
    fn children(&self, pid: i32) -> Option<Vec<i32>> {
        let threads = PathBuf::from(format!("/proc/{pid}/task"));
        let lists: Vec<Vec<u8>> = if self.threads == 1 {
            vec![read(threads.join(pid.to_string()).join("children"))?]
        } else {
            let threads = fs::read_dir(threads).ok()?.flatten();
            let lists = threads.filter_map(|thread| read(thread.path().join("children")));
            lists.collect()
        };
        let pids = lists
            .iter()
            .flat_map(|list| list.split(|&byte| byte == b' '));
        let pids = pids.filter_map(|pid| std::str::from_utf8(pid).ok()?.parse().ok());
        (!lists.is_empty()).then(|| pids.collect())
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the kernel's, and its own processes'"
)]
fn read(path: PathBuf) -> Option<Vec<u8>> {
    fs::read(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    /// Creates this many processes, each with the given parent.
    fn processes(count: i32, parent: impl Fn(i32) -> i32) -> Processes {
        let process = |pid| Process {
            parent: parent(pid),
            group: pid,
            session: pid,
            started: 0,
            threads: 1,
        };
        Processes((2..count + 2).map(|pid| (pid, process(pid))).collect())
    }

    #[test]
    fn a_deep_chain_of_processes_takes_no_longer_than_as_many_beside_each_other() {
        let took = |processes: &Processes, below: usize| {
            let begin = Instant::now();
            assert_eq!(processes.below(2).len(), below);
            begin.elapsed()
        };
        let beside = took(&processes(20_000, |_| 2), 20_000);
        let chain = took(&processes(20_000, |pid| pid - 1), 19_999);
        let limit = beside * 10 + Duration::from_millis(100);
        assert!(chain < limit, "{chain:?} instead of {beside:?}");
    }
}
