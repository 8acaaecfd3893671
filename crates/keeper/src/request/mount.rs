//! Placing detached mounts, and undoing that.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use orlop_wire::{Done, Failure, FailureKind, Mount};
use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, UnmountFlags, move_mount, unmount};

use super::dispatch::failure;
use crate::container::Container;
use crate::keeper::Keeper;

impl Keeper {
    pub(super) fn mount(&mut self, request: Mount, fds: Vec<OwnedFd>) -> Result<Done, Failure> {
        let path = request.path;
        let [mount]: [OwnedFd; 1] = fds.try_into().map_err(|_| {
            let message = "a mount needs one descriptor";
            failure(FailureKind::Invalid, message)
        })?;
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        move_mount(&mount, "", CWD, &path, flags).map_err(|error| {
            let message = format!("attaching a mount at {}: {error}", path.display());
            failure(FailureKind::Failed, message)
        })?;
        let known = self.container_key(&request.container);
        let key = known.unwrap_or_else(|| self.key());
        self.containers
            .entry(key)
            .or_insert_with(|| Container::new(request.container))
            .mounts
            .push(path);
        Ok(Done {})
    }
}

/// Undoes mounts, the last first. Returns what could not be undone, and why.
pub(crate) fn unmount_all(mounts: &mut Vec<PathBuf>) -> Option<String> {
    while let Some(path) = mounts.last() {
        let flags = UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
        match unmount(path, flags) {
            // It may have been undone by somebody else.
            Ok(()) | Err(Errno::INVAL | Errno::NOENT) => mounts.pop(),
            Err(error) => return Some(format!("unmounting {}: {error}", path.display())),
        };
    }
    None
}
