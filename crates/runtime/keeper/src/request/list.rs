//! Lists the keeper's containers, sessions and state.

use std::os::fd::OwnedFd;

use orlop_keeper_protocol::{Failure, List, Listing};

use crate::container::Session;
use crate::keeper::Keeper;

impl Keeper {
    pub(super) fn list(&mut self, _: List, _: Vec<OwnedFd>) -> Result<Listing, Failure> {
        let containers = self.containers.iter().map(|(key, container)| {
            let attachments = self.attachments.values();
            container.info(attachments.filter(|it| it.container == *key).count() as u32)
        });
        Ok(Listing {
            containers: containers.collect(),
            execs: self.sessions.iter().map(Session::info).collect(),
        })
    }
}
