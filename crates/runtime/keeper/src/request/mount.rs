//! Attaches detached mounts.

use std::os::fd::OwnedFd;

use orlop_keeper_protocol::{Done, Failure, FailureKind, Mount};

use crate::container::Container;
use crate::failure::failure;
use crate::keeper::Keeper;

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
