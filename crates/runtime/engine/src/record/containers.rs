//! The containers of all pods of the node.

use std::sync::Arc;

use orlop_cri_api::v1::{ContainerFilter, ContainerStatus};

use crate::clock;
use crate::error::{Error, Result};
use crate::record::container::{Container, Phase};
use crate::record::messages::{container_matches, container_status};
use crate::record::pod::Pod;
use crate::record::store::Store;

/// The containers.
pub type Containers = Store<Container>;

impl Containers {
    /// The containers that clients may see, newest first.
    pub fn chosen(&self, filter: Option<&ContainerFilter>) -> Vec<Arc<Container>> {
        let mut containers = self.all();
        containers.retain(|one| one.visible() && container_matches(one, filter));
        containers.sort_by_key(|container| std::cmp::Reverse(container.created_at));
        containers
    }

    /// A pod's containers, also those that no client sees.
    pub fn of(&self, pod: &Pod) -> Vec<Arc<Container>> {
        self.owned_by(pod.id.as_str())
    }

    /// The containers of a pod that clients may see, newest first: kubelets that listen to events
    /// take the first one of a name for its last attempt.
    pub fn statuses_of(&self, pod: &Pod) -> Vec<ContainerStatus> {
        let mut containers = self.of(pod);
        containers.retain(|container| container.visible());
        containers.sort_by_key(|container| std::cmp::Reverse(container.created_at));
        let statuses = containers.iter().map(|one| container_status(one));
        statuses.collect()
    }

    /// When a container of this pod is created that is made now: a kubelet takes the one of a name that was created last
    /// for its last attempt, so that must come after the others where the clock was set back, too.
    pub fn creation_time(&self, pod: &Pod) -> i64 {
        let others = self.of(pod);
        clock::after(others.iter().map(|one| one.created_at).max())
    }

    /// A container that a client may ask about.
    pub fn visible(&self, id: &str) -> Result<Arc<Container>> {
        let container = self.find(id)?;
        if container.visible() {
            return Ok(container);
        }
        let id = id.to_owned();
        Err(Error::NotFound {
            what: "container",
            id,
        }
        .into())
    }

    /// A container that commands can be run in.
    pub fn running(&self, id: &str) -> Result<Arc<Container>> {
        let container = self.find(id)?;
        if container.phase() != Phase::Running {
            let state = container.state().as_str_name();
            let problem = format!(
                "container {} is not running; its state is {state}",
                container.id
            );
            return Err(Error::Precondition(problem).into());
        }
        Ok(container)
    }
}
