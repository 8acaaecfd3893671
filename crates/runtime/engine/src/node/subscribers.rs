//! Events about pods and containers for subscribers.

use orlop_cri_api::v1::{ContainerEventResponse, ContainerEventType};

use crate::clock;
use crate::node::Node;
use crate::record::container::Container;
use crate::record::messages::{container_status, pod_status};
use crate::record::pod::Pod;

/// An exit older than this, in nanoseconds, is reported with its own time: it was detected late.
const LATE: i64 = 1_000_000_000;

impl Node {
    /// Reports an event of a pod to subscribers.
    pub fn tell_pod(&self, pod: &Pod, what: ContainerEventType) {
        self.tell(pod, event(pod, None, what, clock::now()));
    }

    /// Reports an event of a container to subscribers.
    pub fn tell_container(&self, container: &Container, what: ContainerEventType) {
        let now = clock::now();
        let at = match container.now().exit {
            Some(exit) if what == ContainerEventType::ContainerStoppedEvent => {
                let is_late = exit.at > 0 && now.saturating_sub(exit.at) > LATE;
                if is_late { exit.at } else { now }
            }
            _ => now,
        };
        let pod = &container.pod;
        self.tell(pod, event(pod, Some(container), what, at));
    }

    /// Records events of an earlier run, and replays those that reconnecting subscribers may have missed, if
    /// there is a record of their time.
    pub fn tell_earlier(&self) {
        let mut earlier = Vec::new();
        for container in self.containers.all() {
            if !container.visible() {
                continue;
            }
            let ended = container.now().exit.map_or(0, |exit| exit.at);
            let times = [
                (
                    container.created_at,
                    ContainerEventType::ContainerCreatedEvent,
                ),
                (
                    container.started_at(),
                    ContainerEventType::ContainerStartedEvent,
                ),
                (ended, ContainerEventType::ContainerStoppedEvent),
            ];
            let known = times.into_iter().filter(|(at, _)| *at > 0);
            earlier.extend(known.map(|(at, what)| (at, what, container.clone())));
        }
        earlier.sort_by_key(|(at, what, _)| (*at, *what as i32));
        for (at, what, container) in earlier {
            let pod = &container.pod;
            let event = event(pod, Some(&container), what, at);
            self.events.note(&event);
            if self.events.reaches_back_to(at) {
                self.publish(pod, event);
            }
        }
    }

    fn tell(&self, pod: &Pod, event: ContainerEventResponse) {
        self.events.note(&event);
        self.publish(pod, event);
    }

    /// Publishes an event to listeners, with the current state of its pod.
    fn publish(&self, pod: &Pod, event: ContainerEventResponse) {
        if !self.events.wanted() {
            return;
        }
        let ticket = self.events.ticket();
        let event = ContainerEventResponse {
            pod_sandbox_status: Some(pod_status(pod)),
            containers_statuses: self.containers.statuses_of(pod),
            ..event
        };
        self.events.publish(ticket, &event);
    }
}

/// Builds an event with the pod and the one container that it is about.
fn event(
    pod: &Pod,
    container: Option<&Container>,
    what: ContainerEventType,
    at: i64,
) -> ContainerEventResponse {
    let id = container.map_or(pod.id.as_str(), |container| container.id.as_str());
    ContainerEventResponse {
        container_id: id.to_owned(),
        container_event_type: what.into(),
        created_at: at,
        pod_sandbox_status: Some(pod_status(pod)),
        containers_statuses: container.map(container_status).into_iter().collect(),
    }
}
