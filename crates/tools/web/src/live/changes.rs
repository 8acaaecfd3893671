//! Container events of the endpoint, if it sends any.

use std::time::{Duration, Instant};

use orlop_cri_api::client::Connection;
use orlop_cri_api::v1::{ContainerEventResponse, ContainerEventType};
use serde_json::json;
use tokio::sync::mpsc::Sender;

use super::news::News;
use super::pods::Seen;
use super::time::moment;
use crate::bounded::cut;

/// A stream that ends within this time has never worked.
const BEGUN: Duration = Duration::from_secs(1);

/// Forwards events until the stream ends.
pub(super) async fn watch(cri: Connection, to: Sender<News>) {
    let begin = Instant::now();
    // Some servers accept the stream only with the first event; this call then waits for it.
    let Ok(mut events) = cri.runtime().container_events().await else {
        return drop(to.send(News::NoEvents).await);
    };
    loop {
        let news = match events.next().await {
            Ok(Some(event)) => News::Event(Box::new(event)),
            _ if begin.elapsed() < BEGUN => News::NoEvents,
            Ok(None) => News::EventsEnded("the endpoint closed its event stream".into()),
            Err(error) => News::EventsEnded(error.to_string()),
        };
        let is_over = !matches!(news, News::Event(_));
        if to.send(news).await.is_err() || is_over {
            return;
        }
    }
}

/// Formats an event for the page. Missing data is taken from the last list of pods.
pub(super) fn event_json(event: &ContainerEventResponse, seen: &Seen) -> String {
    let kind = match event.container_event_type() {
        ContainerEventType::ContainerCreatedEvent => "created",
        ContainerEventType::ContainerStartedEvent => "started",
        ContainerEventType::ContainerStoppedEvent => "stopped",
        ContainerEventType::ContainerDeletedEvent => "deleted",
    };
    let id = event.container_id.as_str();
    let sandbox = event.pod_sandbox_status.as_ref();
    let known = seen.pod_of.get(id).map(String::as_str);
    let pod = sandbox.map(|sandbox| sandbox.id.as_str()).or(known);
    // An event of the sandbox itself has its ID as the container.
    let pod = pod.unwrap_or(id);
    let container = (pod != id).then_some(id);
    let metadata = sandbox.and_then(|sandbox| sandbox.metadata.as_ref());
    let (pod_name, namespace) = match (metadata, seen.pod_names.get(pod)) {
        (Some(metadata), _) => (metadata.name.as_str(), metadata.namespace.as_str()),
        (None, Some((name, namespace))) => (name.as_str(), namespace.as_str()),
        (None, None) => ("", ""),
    };
    let statuses = event.containers_statuses.iter();
    let mut named = statuses.filter(|status| status.id == id);
    let named = named.find_map(|status| Some(status.metadata.as_ref()?.name.as_str()));
    let named = named.or_else(|| seen.names.get(id).map(String::as_str));
    let event = json!({
        "time": moment(event.created_at),
        "kind": kind,
        "pod": pod,
        "container": container,
        "pod_name": cut(pod_name),
        "namespace": cut(namespace),
        "container_name": container.and(named).map(cut),
    });
    event.to_string()
}
