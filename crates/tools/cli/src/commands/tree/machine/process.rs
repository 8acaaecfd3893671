//! Processes as a tree.

use std::collections::{BTreeMap, BTreeSet};

/// A process with its children.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    /// Command line, or the name in brackets.
    pub(crate) command: String,
    pub(crate) children: Vec<Process>,
}

/// Returns the tree of these processes. Processes that have exited meanwhile are left out.
pub(crate) fn processes(pids: &[u32]) -> Vec<Process> {
    let known: BTreeMap<u32, (u32, String)> = pids
        .iter()
        .filter_map(|pid| Some((*pid, (parent(*pid)?, command(*pid)))))
        .collect();
    let parents: BTreeMap<u32, u32> = known
        .iter()
        .map(|(pid, (parent, _))| (*pid, *parent))
        .collect();
    let roots = parents
        .iter()
        .filter(|(_, parent)| !parents.contains_key(parent))
        .map(|(pid, _)| *pid)
        .collect::<BTreeSet<_>>();
    roots
        .into_iter()
        .map(|pid| tree(pid, &parents, &known))
        .collect()
}

fn tree(pid: u32, parents: &BTreeMap<u32, u32>, known: &BTreeMap<u32, (u32, String)>) -> Process {
    let children = parents.iter().filter(|(_, parent)| **parent == pid);
    Process {
        pid,
        command: known
            .get(&pid)
            .map(|(_, text)| text.clone())
            .unwrap_or_default(),
        children: children
            .map(|(child, _)| tree(*child, parents, known))
            .collect(),
    }
}

fn parent(pid: u32) -> Option<u32> {
    parent_in(&orlop_fs::read_kernel_text(format!("/proc/{pid}/stat")).ok()?)
}

/// Returns the fourth field of `stat` (proc(5)). The second field, the name, may contain any character.
fn parent_in(stat: &str) -> Option<u32> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Returns the command line. A process sets it itself, so control characters are removed.
fn command(pid: u32) -> String {
    let line = orlop_fs::read_kernel_file(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let line = line.strip_suffix(&[0]).unwrap_or(&line);
    let text: String = String::from_utf8_lossy(line)
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if !text.trim().is_empty() {
        return text;
    }
    let name = orlop_fs::read_kernel_text(format!("/proc/{pid}/comm")).unwrap_or_default();
    let name: String = name.chars().filter(|c| !c.is_control()).collect();
    format!("[{name}]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_hide_the_parent() {
        assert_eq!(parent_in("7 (a) b) S 42 7 7 0"), Some(42));
        assert_eq!(parent_in("7"), None);
    }

    #[test]
    fn this_process_is_found_with_its_command() {
        let own = std::process::id();
        let found = processes(&[own, u32::MAX]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].pid, own);
        assert!(!found[0].command.is_empty());
    }
}
