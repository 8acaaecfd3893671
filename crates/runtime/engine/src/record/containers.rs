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
    /// Returns the containers that clients may see and the filter selects, newest first.
    pub fn chosen(&self, filter: Option<&ContainerFilter>) -> Vec<Arc<Container>> {
        let mut containers = self.all();
        containers.retain(|one| one.visible() && container_matches(one, filter));
        containers.sort_by_key(|container| std::cmp::Reverse(container.created_at));
        containers
    }

    /// Returns a pod's containers, including those that clients cannot see.
    pub fn of(&self, pod: &Pod) -> Vec<Arc<Container>> {
        self.owned_by(pod.id.as_str())
    }

    /// Returns the statuses of a pod's containers that clients may see, newest first: kubelets that listen to
    /// events take the first container of a name for its last attempt.
    pub fn statuses_of(&self, pod: &Pod) -> Vec<ContainerStatus> {
        let mut containers = self.of(pod);
        containers.retain(|container| container.visible());
        containers.sort_by_key(|container| std::cmp::Reverse(container.created_at));
        let statuses = containers.iter().map(|one| container_status(one));
        statuses.collect()
    }

    /// Returns the creation time of a new container of this pod. A kubelet takes the newest container of a name
    /// for its last attempt, so the time is after all others even if the clock was set back.
    pub fn creation_time(&self, pod: &Pod) -> i64 {
        let others = self.of(pod);
        clock::after(others.iter().map(|one| one.created_at).max())
    }

    /// Finds a container that a client may ask about.
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

    /// Finds a container that can run commands.
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
