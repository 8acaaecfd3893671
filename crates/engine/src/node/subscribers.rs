//! Subscribers of events hear what happens to pods and containers.

use orlop_cri::v1::{ContainerEventResponse, ContainerEventType};

use crate::clock;
use crate::node::Node;
use crate::record::container::Container;
use crate::record::messages::pod_status;
use crate::record::pod::Pod;

impl Node {
    /// Tells subscribers what happened to a pod.
    pub fn tell_pod(&self, pod: &Pod, what: ContainerEventType) {
        self.tell(pod.id.as_str(), pod, what);
    }

    /// Tells subscribers what happened to a container.
    pub fn tell_container(&self, container: &Container, what: ContainerEventType) {
        self.tell(container.id.as_str(), &container.pod, what);
    }

    fn tell(&self, id: &str, pod: &Pod, what: ContainerEventType) {
        if !self.events.wanted() {
            return;
        }
        self.events.publish(&ContainerEventResponse {
            container_id: id.to_owned(),
            container_event_type: what.into(),
            created_at: clock::now(),
            pod_sandbox_status: Some(pod_status(pod)),
            containers_statuses: self.containers.statuses_of(pod),
        });
    }
}
