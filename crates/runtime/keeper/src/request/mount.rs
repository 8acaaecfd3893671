//! Placing detached mounts, and undoing that.

use std::os::fd::OwnedFd;

use orlop_keeper_protocol::{Done, Failure, FailureKind, Mount};

use super::dispatch::failure;
use crate::container::Container;
use crate::keeper::Keeper;
use crate::pod::Placed;

impl Keeper {
    pub(super) fn mount(&mut self, request: Mount, fds: Vec<OwnedFd>) -> Result<Done, Failure> {
        let path = request.path;
        let [mount]: [OwnedFd; 1] = fds.try_into().map_err(|_| {
            let message = "a mount requires one file descriptor";
            failure(FailureKind::Invalid, message)
        })?;
        let told = path.clone();
        let placed = self.pod.mounts.put(&mount, path).map_err(|error| {
            let message = format!("cannot attach a mount at {}: {error}", told.display());
            failure(FailureKind::Failed, message)
        })?;
        let known = self.container_key(&request.container);
        let key = known.unwrap_or_else(|| self.key());
        self.containers
            .entry(key)
            .or_insert_with(|| Container::new(request.container))
            .mounts
            .push(placed);
        Ok(Done {})
    }
}

/// Undoes mounts, the last first. Returns what could not be undone, and why.
pub(crate) fn unmount_all(mounts: &mut Vec<Placed>) -> Option<String> {
    while let Some(mount) = mounts.last() {
        if let Err(error) = mount.undo() {
            return Some(format!("unmounting {}: {error}", mount.path().display()));
        }
        mounts.pop();
    }
    None
}
