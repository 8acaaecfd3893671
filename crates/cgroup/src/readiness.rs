//! Having the kernel ready to move processes between cgroups.

use std::fs;
use std::io;

use crate::{CgroupPath, Hierarchies};

impl Hierarchies {
    /// Has the kernel ready to move processes for the next milliseconds. Blocks, 8 to 10 ms where
    /// it was not ready.
    ///
    /// A move takes a lock that all forks and exits share. Whoever takes it for the first time in
    /// a while waits until all processors have noticed (a grace period of RCU); who follows soon
    /// does not. A runtime moves a process some milliseconds after it was called: what is waited
    /// for here meanwhile, it need not wait for. The move made here goes nowhere: this process,
    /// into the cgroup that it is in.
    pub fn make_ready_to_move(&self) -> io::Result<()> {
        let own = orlop_disk::read_kernel_text("/proc/self/cgroup")?;
        // One hierarchy will do: the lock is the same for all.
        let controller = if self.is_v2() { "" } else { "cpu" };
        let path = own.lines().find_map(|line| path_in(line, controller));
        let directory = path
            .and_then(|path| CgroupPath::parse(path).ok())
            .and_then(|path| self.directory(controller, &path));
        let Some(directory) = directory else {
            return Ok(());
        };
        fs::write(
            directory.join("cgroup.procs"),
            std::process::id().to_string(),
        )
    }
}

/// The path in a line of `/proc/PID/cgroup` if that is about the controller, or, if that is empty,
/// about version 2.
fn path_in<'l>(line: &'l str, controller: &str) -> Option<&'l str> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, path) = (parts.next()?, parts.next()?);
    let mut controllers = controllers.split(',');
    controllers.any(|it| it == controller).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_about_its_controllers() {
        assert_eq!(path_in("4:cpu,cpuacct:/a:b", "cpu"), Some("/a:b"));
        assert_eq!(path_in("3:cpuset:/", "cpu"), None);
        assert_eq!(path_in("0::/x", ""), Some("/x"));
        assert_eq!(path_in("4:cpu,cpuacct:/a", ""), None);
    }
}
