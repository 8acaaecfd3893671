//! Prepares the kernel for fast moves of processes between cgroups.

use std::fs;
use std::io;

use orlop_fs::Membership;

use crate::{CgroupPath, Hierarchies};

impl Hierarchies {
    /// Makes process moves fast for the next milliseconds. Blocks for 8 to 10 ms if the kernel was not ready.
    ///
    /// A move takes a lock that all forks and exits share. The first process that takes it in a while waits until all
    /// processors have noticed (a grace period of RCU). A later one does not. A runtime moves a process some
    /// milliseconds after it was called, so this wait happens in parallel. The move made here has no effect: it moves
    /// this process to its own cgroup.
    pub fn make_ready_to_move(&self) -> io::Result<()> {
        let own = Membership::own()?;
        // One hierarchy is enough: the lock is the same for all.
        let controller = if self.is_v2() { "" } else { "cpu" };
        let directory = own
            .path(controller)
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
