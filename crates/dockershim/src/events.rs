//! What happened to pods and containers, for everybody who listens.

use orlop_cri::v1::{ContainerEventResponse, ContainerEventType, PodSandboxStatus};
use orlop_service::events::Events as Subscribers;
use tokio::sync::watch;

use crate::docker::types::Actor;
use crate::error::Result;
use crate::shim::Shim;
use crate::{find, labels, names, network, view};

/// The subscribers of `GetContainerEvents`, and of the engine's return.
#[derive(Debug, Default)]
pub(crate) struct Events {
    pub(crate) subscribers: Subscribers,
    returns: watch::Sender<u64>,
}

impl Events {
    /// Waits until the engine is there again after it was away.
    pub(crate) async fn engine_back(&self) {
        // The sender lives as long as this does.
        let _ = self.returns.subscribe().changed().await;
    }

    /// Tells those who wait for the engine.
    pub(crate) fn tell_engine_is_back(&self) {
        self.returns.send_modify(|count| *count += 1);
    }
}

/// Whether the subscribers were told of something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    /// They were, or there are none.
    Yes,
    /// The engine is away, and nobody knows what has become of the pod.
    No,
}

/// Tells the subscribers of something that happened, with the pod as it is now. Without it a
/// kubelet does not heed the word.
pub(crate) async fn tell(shim: &Shim, what: ContainerEventType, at: i64, whom: &Actor) -> Told {
    if !shim.events.subscribers.wanted() {
        return Told::Yes;
    }
    let ticket = shim.events.subscribers.ticket();
    let is_sandbox = whom
        .attributes
        .get(labels::KIND)
        .is_some_and(|kind| kind == labels::SANDBOX);
    let sandbox = match whom.attributes.get(labels::SANDBOX_ID) {
        Some(sandbox) if !is_sandbox => sandbox.clone(),
        _ => whom.id.clone(),
    };
    let mut event = ContainerEventResponse {
        container_id: whom.id.clone(),
        created_at: at,
        ..Default::default()
    };
    event.set_container_event_type(what);
    match pod(shim, &sandbox, &mut event).await {
        Ok(()) => {}
        Err(error) if error.is_not_found() && is_sandbox => {
            event.pod_sandbox_status = Some(gone(whom));
        }
        Err(error) if error.is_absence() => return Told::No,
        Err(error) => {
            tracing::debug!(sandbox, %error, "an event without its pod");
        }
    }
    shim.events.subscribers.publish(ticket, &event);
    Told::Yes
}

async fn pod(shim: &Shim, sandbox: &str, event: &mut ContainerEventResponse) -> Result<()> {
    let found = find::sandbox(shim, sandbox).await?;
    let addresses = network::addresses(shim, &found).await;
    let info = shim.info().await?;
    let status = view::sandbox_status(&found, &addresses, &info.default_runtime);
    event.pod_sandbox_status = Some(status);
    event.containers_statuses = statuses_of(shim, sandbox).await?;
    Ok(())
}

/// The statuses of a sandbox's containers.
pub(crate) async fn statuses_of(
    shim: &Shim,
    sandbox: &str,
) -> Result<Vec<orlop_cri::v1::ContainerStatus>> {
    let mut statuses = Vec::new();
    for listed in find::containers_of(shim, sandbox).await? {
        // One that is removed meanwhile is none of the pod's any more.
        match find::container(shim, &listed.id).await {
            Ok(found) => {
                let image = shim.docker.image(&found.image).await.ok();
                statuses.push(view::container_status(&found, image.as_ref()));
            }
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(statuses)
}

/// A sandbox that is no more, by what the engine said of it.
fn gone(whom: &Actor) -> PodSandboxStatus {
    let attributes = &whom.attributes;
    let name = attributes.get("name").map_or("", String::as_str);
    let of_engine = ["name", "image", "exitCode", "execID", "signal"];
    let all = attributes
        .iter()
        .filter(|(key, _)| !of_engine.contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let (own_labels, annotations) = labels::parted(&all);
    let mut status = PodSandboxStatus {
        id: whom.id.clone(),
        metadata: names::sandbox_of(name),
        labels: own_labels,
        annotations,
        ..Default::default()
    };
    status.set_state(orlop_cri::v1::PodSandboxState::SandboxNotready);
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sandbox_that_is_gone_keeps_its_name() {
        let actor = Actor {
            id: "abc".into(),
            attributes: [
                ("name", "k8s_POD_a_b_c_0"),
                (labels::KIND, labels::SANDBOX),
                ("app", "web"),
                ("image", "pause"),
            ]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        };
        let status = gone(&actor);
        assert_eq!(status.metadata.unwrap().name, "a");
        assert_eq!(status.labels.len(), 1);
    }
}
