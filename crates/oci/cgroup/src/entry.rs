//! Fast entry into a cgroup, for a process that is about to start.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;

use crate::{Cgroup, Error};

/// The entry of a cgroup, opened beforehand.
///
/// With version 2 the directory is passed to `clone3` (`CLONE_INTO_CGROUP`). With version 1 the new process, while it
/// has a single thread, writes itself to `tasks`: unlike `cgroup.procs`, that does not wait.
#[derive(Debug)]
pub struct Entry {
    doors: Vec<File>,
    directory: Option<File>,
}

impl Entry {
    /// Opens the entry of an existing cgroup.
    pub fn open(cgroup: &Cgroup) -> Result<Self, Error> {
        let v2 = cgroup.hierarchies().is_v2();
        let mut entry = Self {
            doors: Vec::new(),
            directory: None,
        };
        for directory in cgroup.directories() {
            let path = directory.join(if v2 { "cgroup.procs" } else { "tasks" });
            let door = OpenOptions::new().write(true).open(&path);
            entry.doors.push(door.map_err(Error::io("opening", path))?);
            if v2 {
                let file = File::open(&directory).map_err(Error::io("opening", directory))?;
                entry.directory = Some(file);
            }
        }
        Ok(entry)
    }

    /// Returns the directory for `CLONE_INTO_CGROUP`; `None` with version 1.
    pub fn directory(&self) -> Option<BorrowedFd<'_>> {
        self.directory.as_ref().map(AsFd::as_fd)
    }

    /// Moves the calling process into the cgroup. With version 1 this moves the calling thread, which must be the only
    /// one. It allocates nothing and takes no lock: a child may call it between `fork` and `execve`.
    ///
    /// With version 2 this waits for a grace period of the kernel, unlike a process that is cloned into its cgroup.
    pub fn enter(&self) -> Result<(), Errno> {
        for door in &self.doors {
            rustix::io::write(door, b"0")?;
        }
        Ok(())
    }
}
