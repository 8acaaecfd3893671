//! Pod and container events for all subscribers.

use std::collections::BTreeMap;
use std::sync::Arc;

use orlop_cri_api::v1::{
    ContainerEventResponse, ContainerEventType, ContainerState, ContainerStatus,
    PodSandboxMetadata, PodSandboxState, PodSandboxStatus,
};
use orlop_cri_server::events::Events as Subscribers;

use crate::docker::Docker;
use crate::docker::types::Actor;
use crate::engine_info::EngineInfo;
use crate::error::Result;
use crate::network::PodNetwork;
use crate::retry::{PATIENCE, persist};
use crate::{find, labels, names, view};

/// The subscribers of `GetContainerEvents` and the data that events are built from.
#[derive(Debug)]
pub(crate) struct Events {
    pub(crate) subscribers: Subscribers,
    docker: Arc<Docker>,
    info: EngineInfo,
    network: Arc<PodNetwork>,
}

/// Whether an event was delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    /// The event was delivered, or there are no subscribers.
    Yes,
    /// The engine is unreachable, so the pod's status is unknown.
    No,
}

/// A pod or container event.
pub(crate) struct Happened<'a> {
    pub(crate) what: ContainerEventType,
    /// Nanoseconds since 1970.
    pub(crate) at: i64,
    pub(crate) whom: &'a Actor,
    /// The attributes of the container's sandbox, if known.
    pub(crate) sandbox: Option<&'a BTreeMap<String, String>>,
}

impl Events {
    pub(crate) fn new(docker: Arc<Docker>, info: EngineInfo, network: Arc<PodNetwork>) -> Self {
        Self {
            subscribers: Subscribers::default(),
            docker,
            info,
            network,
        }
    }

    /// Adds an event to the history and sends it to the subscribers with the pod's current status. A kubelet ignores
    /// events without that status.
    pub(crate) async fn tell(&self, happened: &Happened<'_>) -> Told {
        let subscribers = &self.subscribers;
        let mut event = happened.brief();
        if !subscribers.wanted() {
            subscribers.note(&event);
            return Told::Yes;
        }
        let ticket = subscribers.ticket();
        let brief = event.clone();
        let is_sandbox = happened.is_sandbox();
        match self.pod(happened.sandbox_id(), &mut event).await {
            Ok(()) => {}
            Err(error) if error.is_not_found() && is_sandbox => event.containers_statuses.clear(),
            Err(error) if error.is_absence() => return Told::No,
            Err(error) => {
                tracing::debug!(sandbox = happened.sandbox_id(), %error, "cannot get the pod status of an event; sending the event without it");
                event.pod_sandbox_status = None;
                event.containers_statuses.clear();
            }
        }
        // A removed container no longer belongs to its pod.
        let is_whole = is_sandbox
            || event
                .containers_statuses
                .iter()
                .any(|one| one.id == event.container_id);
        subscribers.note(if is_whole { &event } else { &brief });
        subscribers.publish(ticket, &event);
        Told::Yes
    }

    /// Adds a pod's events from before this run to the history and sends them to the subscribers of that time. All
    /// carry the pod's current status, which is read once.
    pub(crate) async fn tell_earlier(&self, happened: &[Happened<'_>]) {
        let subscribers = &self.subscribers;
        for one in happened {
            subscribers.note(&one.brief());
        }
        let of_late: Vec<_> = happened
            .iter()
            .filter(|one| subscribers.reaches_back_to(one.at))
            .collect();
        let Some(first) = of_late.first() else { return };
        if !subscribers.earlier_wanted() {
            return;
        }
        let sandbox = first.sandbox_id();
        let ticket = subscribers.ticket();
        let look = || async move {
            let mut seen = ContainerEventResponse::default();
            self.pod(sandbox, &mut seen).await.map(|()| seen)
        };
        let seen = persist(PATIENCE, look, |error| error.of_engine()).await;
        let seen = seen.unwrap_or_else(|problem| {
            tracing::debug!(
                sandbox,
                problem,
                "cannot get the pod status of earlier events; sending the events without it"
            );
            ContainerEventResponse::default()
        });
        for one in of_late {
            let event = ContainerEventResponse {
                pod_sandbox_status: seen.pod_sandbox_status.clone(),
                containers_statuses: seen.containers_statuses.clone(),
                ..one.brief()
            };
            subscribers.publish_earlier(ticket, &event);
        }
    }

    /// Adds the pod's current status to an event.
    async fn pod(&self, sandbox: &str, event: &mut ContainerEventResponse) -> Result<()> {
        let found = find::sandbox(&self.docker, sandbox).await?;
        let addresses = self.network.addresses(&found).await;
        let info = self.info.get().await?;
        let status = view::sandbox_status(&found, &addresses, &info.default_runtime);
        event.pod_sandbox_status = Some(status);
        event.containers_statuses = statuses_of(&self.docker, sandbox).await?;
        Ok(())
    }
}

impl Happened<'_> {
    fn is_sandbox(&self) -> bool {
        let kind = self.whom.attributes.get(labels::KIND);
        kind.is_some_and(|kind| kind == labels::SANDBOX)
    }

    fn sandbox_id(&self) -> &str {
        match labels::own(&self.whom.attributes, labels::SANDBOX_ID) {
            Some(sandbox) if !self.is_sandbox() => sandbox,
            _ => &self.whom.id,
        }
    }

    /// Builds the event from the engine's attributes alone.
    fn brief(&self) -> ContainerEventResponse {
        let own = &self.whom.attributes;
        let name = own.get("name").map_or("", String::as_str);
        let sandbox = if self.is_sandbox() {
            Some(own)
        } else {
            self.sandbox
        };
        let mut pod = sandbox.map(|attributes| by_attributes(self.sandbox_id(), attributes));
        // A container's name identifies its pod, except for the pod's attempt.
        let of_name = || {
            names::sandbox_of(name).map(|metadata| PodSandboxStatus {
                id: self.sandbox_id().to_owned(),
                metadata: Some(PodSandboxMetadata {
                    attempt: 0,
                    ..metadata
                }),
                ..PodSandboxStatus::default()
            })
        };
        pod = pod.or_else(of_name);
        let runs = self.what == ContainerEventType::ContainerStartedEvent;
        if let Some(pod) = &mut pod {
            let is_over = self.is_sandbox() && !runs;
            pod.set_state(if is_over {
                PodSandboxState::SandboxNotready
            } else {
                PodSandboxState::SandboxReady
            });
        }
        let mut status = ContainerStatus {
            id: self.whom.id.clone(),
            metadata: names::container_of(name),
            exit_code: own
                .get("exitCode")
                .and_then(|code| code.parse().ok())
                .unwrap_or_default(),
            ..ContainerStatus::default()
        };
        status.set_state(match self.what {
            ContainerEventType::ContainerCreatedEvent => ContainerState::ContainerCreated,
            ContainerEventType::ContainerStartedEvent => ContainerState::ContainerRunning,
            _ => ContainerState::ContainerExited,
        });
        let containers = (!self.is_sandbox()).then_some(status);
        let mut event = ContainerEventResponse {
            container_id: self.whom.id.clone(),
            created_at: self.at,
            pod_sandbox_status: pod,
            containers_statuses: containers.into_iter().collect(),
            ..ContainerEventResponse::default()
        };
        event.set_container_event_type(self.what);
        event
    }
}

/// Reads the statuses of a sandbox's containers.
pub(crate) async fn statuses_of(
    docker: &Docker,
    sandbox: &str,
) -> Result<Vec<orlop_cri_api::v1::ContainerStatus>> {
    let mut statuses = Vec::new();
    for listed in find::containers_of(docker, sandbox).await? {
        // A container that was removed meanwhile no longer belongs to the pod.
        match find::container(docker, &listed.id).await {
            Ok(found) => {
                let image = docker.image(&found.image).await.ok();
                statuses.push(view::container_status(&found, image.as_ref()));
            }
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(statuses)
}

/// Builds a sandbox status from the attributes in the engine's events and lists.
fn by_attributes(id: &str, attributes: &BTreeMap<String, String>) -> PodSandboxStatus {
    let name = attributes.get("name").map_or("", String::as_str);
    let of_engine = ["name", "image", "exitCode", "execID", "signal"];
    let all = attributes
        .iter()
        .filter(|(key, _)| !of_engine.contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let (own_labels, annotations) = labels::parted(&all);
    PodSandboxStatus {
        id: id.to_owned(),
        metadata: names::sandbox_of(name),
        labels: own_labels,
        annotations,
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn actor(id: &str, attributes: &[(&str, &str)]) -> Actor {
        let pairs = attributes.iter();
        Actor {
            id: id.into(),
            attributes: pairs
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
        }
    }

    fn sandbox() -> Actor {
        let attributes = [
            ("name", "k8s_POD_a_b_c_0"),
            (labels::KIND, labels::SANDBOX),
            ("app", "web"),
            ("image", "pause"),
        ];
        actor("abc", &attributes)
    }

    #[test]
    fn a_sandbox_that_is_gone_keeps_its_name() {
        let whom = sandbox();
        let happened = Happened {
            what: ContainerEventType::ContainerDeletedEvent,
            at: 1,
            whom: &whom,
            sandbox: None,
        };
        let status = happened.brief().pod_sandbox_status.unwrap();
        assert_eq!(status.state(), PodSandboxState::SandboxNotready);
        assert_eq!(status.metadata.unwrap().name, "a");
        assert_eq!(status.labels.len(), 1);
    }

    #[test]
    fn a_container_that_is_gone_is_told_with_its_pod_and_how_it_ended() {
        let whom = actor(
            "def",
            &[
                ("name", "k8s_main_a_b_c_2"),
                (labels::KIND, labels::CONTAINER),
                (labels::SANDBOX_ID, "abc"),
                ("exitCode", "7"),
            ],
        );
        let sandbox = sandbox();
        for known in [Some(&sandbox.attributes), None] {
            let happened = Happened {
                what: ContainerEventType::ContainerStoppedEvent,
                at: 1,
                whom: &whom,
                sandbox: known,
            };
            let event = happened.brief();
            let pod = event.pod_sandbox_status.unwrap();
            assert_eq!(pod.id, "abc");
            assert_eq!(pod.labels.len(), known.map_or(0, |_| 1));
            let metadata = pod.metadata.unwrap();
            assert_eq!((metadata.name.as_str(), metadata.attempt), ("a", 0));
            let status = &event.containers_statuses[0];
            assert_eq!((status.id.as_str(), status.exit_code), ("def", 7));
            let named = status.metadata.as_ref().unwrap();
            assert_eq!((named.name.as_str(), named.attempt), ("main", 2));
        }
    }
}
