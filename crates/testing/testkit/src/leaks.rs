//! Resources of the machine that still carry a test's name.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::scratch;

/// A resource that a test, or the tested program, left behind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Leak {
    /// A process, with its ID and command line.
    Process(u32, String),
    /// A mount in the test's mount namespace.
    Mount(PathBuf),
    /// A cgroup, with its hierarchy.
    Cgroup(PathBuf),
    /// A pinned network namespace.
    Netns(PathBuf),
    /// A network interface.
    Interface(String),
}

/// Removes the mount that a killed daemon leaves in its state directory, which could not be removed otherwise.
pub fn let_go(state: &Path) {
    let _ = rustix::mount::unmount(state.join("private"), rustix::mount::UnmountFlags::DETACH);
}

/// Finds all resources that carry the name `id`, except for the processes in `except`. Mounts, pinned namespaces and
/// processes are identified by a path below the test's scratch directories, cgroups and interfaces by their own names.
pub fn find(id: &str, except: &[u32]) -> BTreeSet<Leak> {
    let mut leaks = BTreeSet::new();
    leaks.extend(processes(id, except));
    leaks.extend(cgroups(id).into_iter().map(Leak::Cgroup));
    for point in scratch::mounts_below(Path::new("/")) {
        if carries(&point, id) {
            leaks.insert(Leak::Mount(point));
        }
    }
    for path in entries(Path::new("/run/netns")) {
        if carries(&path, id) {
            leaks.insert(Leak::Netns(path));
        }
    }
    for path in entries(Path::new("/sys/class/net")) {
        if carries(&path, id) {
            let name = path.file_name().unwrap_or_default();
            leaks.insert(Leak::Interface(name.to_string_lossy().into_owned()));
        }
    }
    leaks
}

/// Returns the cgroups whose own name contains `id`, and all below them; parents come first.
pub fn cgroups(id: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut hierarchies = vec![PathBuf::from("/sys/fs/cgroup")];
    for dir in entries(Path::new("/sys/fs/cgroup")) {
        // Of links such as `cpuacct -> cpu,cpuacct`, only the target counts.
        if dir.is_dir() && !dir.is_symlink() {
            hierarchies.push(dir);
        }
    }
    for hierarchy in hierarchies {
        for dir in entries(&hierarchy) {
            if dir.is_dir() && carries(&dir, id) {
                collect_tree(&dir, &mut found);
            }
        }
    }
    found.sort();
    found.dedup();
    found
}

/// Returns the processes whose command line, working directory or cgroup contains `id`.
pub fn processes(id: &str, except: &[u32]) -> Vec<Leak> {
    let own = std::process::id();
    let mut found = Vec::new();
    for dir in entries(Path::new("/proc")) {
        let Some(pid) = dir
            .file_name()
            .and_then(|name| name.to_str()?.parse::<u32>().ok())
        else {
            continue;
        };
        if pid == own || except.contains(&pid) {
            continue;
        }
        let command = fs::read(dir.join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        let cgroup = fs::read_to_string(dir.join("cgroup")).unwrap_or_default();
        let cwd = fs::read_link(dir.join("cwd")).unwrap_or_default();
        // A zombie waits for its parent, which may be the host's init: it is no leak of the test.
        let gone = fs::read_to_string(dir.join("stat"))
            .ok()
            .and_then(|stat| {
                stat.rsplit_once(") ")
                    .map(|(_, rest)| rest.starts_with('Z'))
            })
            .unwrap_or(true);
        if !gone && (command.contains(id) || cgroup.contains(id) || carries(&cwd, id)) {
            found.push(Leak::Process(pid, command));
        }
    }
    found
}

fn collect_tree(dir: &Path, found: &mut Vec<PathBuf>) {
    found.push(dir.to_owned());
    for child in entries(dir) {
        if child.is_dir() {
            collect_tree(&child, found);
        }
    }
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else {
        return Vec::new();
    };
    entries.flatten().map(|entry| entry.path()).collect()
}

fn carries(path: &Path, id: &str) -> bool {
    path.to_string_lossy().contains(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scratch;
    use crate::process::Process;
    use std::process::Command;

    #[test]
    fn a_process_and_a_cgroup_are_found_by_name_and_then_gone() {
        crate::skip_unless!(crate::machine::is_root());
        let scratch = Scratch::new();
        assert_eq!(find(scratch.id(), &[]), BTreeSet::new());
        let mut sleep = Command::new("sleep");
        sleep.arg("60").current_dir(scratch.dir());
        let mut process = Process::spawn("sleep", &mut sleep, &scratch.path("log"));
        let found = processes(scratch.id(), &[]);
        assert!(
            matches!(found[..], [Leak::Process(pid, _)] if pid == process.pid()),
            "{found:?}"
        );
        assert!(processes(scratch.id(), &[process.pid()]).is_empty());
        process.kill();
        assert_eq!(find(scratch.id(), &[]), BTreeSet::new());
    }
}
