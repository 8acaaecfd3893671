//! Having the kernel ready to move processes between cgroups.

use std::fs;
use std::io;

use orlop_fs::Membership;

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
        let own = Membership::own()?;
        // One hierarchy will do: the lock is the same for all.
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
