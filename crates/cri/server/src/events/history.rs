//! History of recent events for later queries, independent of subscribers.
//!
//! Queries do not use the history as the current state of a pod. An event therefore contains only the facts that a
//! person needs, as they were at the time, without a read of the rest of its pod.

use std::collections::VecDeque;

use orlop_cri_api::inspection::ListEventsResponse;
use orlop_cri_api::v1::{ContainerEventResponse, ContainerStatus, PodSandboxStatus};
use prost::Message as _;

use crate::clock;

/// Maximum number of events kept.
const MOST: usize = 4096;

/// Maximum size in bytes of the events kept.
const MOST_BYTES: usize = 1 << 20;

/// Size in bytes from which an event is kept without labels, so that one pod cannot evict the events of others. If it
/// is still larger, its names are removed too.
const LARGE: usize = 4 << 10;

/// Maximum length in bytes of an id.
const LONGEST_ID: usize = 256;

/// The latest events.
#[derive(Debug)]
pub(super) struct History {
    events: VecDeque<Event>,
    bytes: usize,
    /// The time since which the history is complete, in nanoseconds since 1970.
    kept_from: i64,
}

#[derive(Debug)]
struct Event {
    /// The time of the change.
    at: i64,
    /// The time of the publication.
    told: i64,
    encoded: Vec<u8>,
}

impl Default for History {
    fn default() -> Self {
        Self {
            events: VecDeque::new(),
            bytes: 0,
            kept_from: clock::now(),
        }
    }
}

impl History {
    /// Adds an event.
    pub(super) fn note(&mut self, event: &ContainerEventResponse) {
        let mut brief = brief(event);
        if brief.encoded_len() > LARGE
            && let Some(pod) = &mut brief.pod_sandbox_status
        {
            pod.labels.clear();
        }
        if brief.encoded_len() > LARGE {
            brief = bare(&brief);
        }
        let encoded = brief.encode_to_vec();
        self.bytes += encoded.len();
        self.events.push_back(Event {
            at: event.created_at,
            told: clock::now(),
            encoded,
        });
        while self.events.len() > MOST || self.bytes > MOST_BYTES {
            let Some(oldest) = self.events.pop_front() else {
                break;
            };
            self.bytes -= oldest.encoded.len();
            self.kept_from = self.kept_from.max(oldest.told);
        }
    }

    /// Removes all events.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns the events from a time on, in chronological order.
    pub(super) fn since(&self, at: i64) -> ListEventsResponse {
        let mut wanted: Vec<_> = self.events.iter().filter(|event| event.at >= at).collect();
        wanted.sort_by_key(|event| event.at);
        ListEventsResponse {
            kept_from: self.kept_from,
            events: wanted
                .into_iter()
                .map(|event| event.encoded.clone())
                .collect(),
        }
    }
}

/// Reduces an event to the identity and state of the container and its pod.
fn brief(event: &ContainerEventResponse) -> ContainerEventResponse {
    let pod = event.pod_sandbox_status.as_ref();
    let pod = pod.map(|pod| PodSandboxStatus {
        id: pod.id.clone(),
        metadata: pod.metadata.clone(),
        state: pod.state,
        created_at: pod.created_at,
        labels: pod.labels.clone(),
        runtime_handler: pod.runtime_handler.clone(),
        ..PodSandboxStatus::default()
    });
    let all = event.containers_statuses.iter();
    let own = all.filter(|status| status.id == event.container_id);
    let own = own.map(|status| ContainerStatus {
        id: status.id.clone(),
        metadata: status.metadata.clone(),
        state: status.state,
        created_at: status.created_at,
        started_at: status.started_at,
        finished_at: status.finished_at,
        exit_code: status.exit_code,
        reason: status.reason.clone(),
        ..ContainerStatus::default()
    });
    ContainerEventResponse {
        container_id: event.container_id.clone(),
        container_event_type: event.container_event_type,
        created_at: event.created_at,
        containers_statuses: own.collect(),
        pod_sandbox_status: pod,
    }
}

/// Removes everything that a client has chosen: only the ids, the change, its time and the exit status remain.
fn bare(brief: &ContainerEventResponse) -> ContainerEventResponse {
    let pod = brief.pod_sandbox_status.as_ref();
    let own = brief.containers_statuses.iter();
    ContainerEventResponse {
        container_id: cut(&brief.container_id),
        container_event_type: brief.container_event_type,
        created_at: brief.created_at,
        pod_sandbox_status: pod.map(|pod| PodSandboxStatus {
            id: cut(&pod.id),
            state: pod.state,
            created_at: pod.created_at,
            ..PodSandboxStatus::default()
        }),
        containers_statuses: own
            .take(1)
            .map(|status| ContainerStatus {
                id: cut(&status.id),
                state: status.state,
                created_at: status.created_at,
                started_at: status.started_at,
                finished_at: status.finished_at,
                exit_code: status.exit_code,
                ..ContainerStatus::default()
            })
            .collect(),
    }
}

/// Drops an id that is longer than any valid one.
fn cut(id: &str) -> String {
    if id.len() > LONGEST_ID {
        return String::new();
    }
    id.to_owned()
}

#[cfg(test)]
mod tests {
    use orlop_cri_api::v1::PodSandboxMetadata;

    use super::*;

    fn event(id: usize, at: i64, label: &str) -> ContainerEventResponse {
        let status = |id: String| ContainerStatus {
            id,
            exit_code: 7,
            message: "x".repeat(4096),
            ..ContainerStatus::default()
        };
        ContainerEventResponse {
            container_id: id.to_string(),
            created_at: at,
            pod_sandbox_status: Some(PodSandboxStatus {
                id: "pod".into(),
                labels: [("label".to_owned(), label.to_owned())].into(),
                annotations: [("large".to_owned(), "x".repeat(4096))].into(),
                ..PodSandboxStatus::default()
            }),
            containers_statuses: vec![status(id.to_string()), status("other".into())],
            ..ContainerEventResponse::default()
        }
    }

    fn told(history: &History, since: i64) -> Vec<ContainerEventResponse> {
        let listed = history.since(since).events;
        let decoded = listed.iter().map(|encoded| {
            ContainerEventResponse::decode(encoded.as_ref()).expect("as it was encoded")
        });
        decoded.collect()
    }

    #[test]
    fn an_event_is_kept_with_who_it_was_and_how_it_ended() {
        let mut history = History::default();
        let now = clock::now();
        for (id, at) in [(1, now - 2), (2, now - 9), (3, now - 1)] {
            history.note(&event(id, at, "value"));
        }
        assert!(history.since(0).kept_from <= clock::now());
        let ids = |since| {
            let told = told(&history, since);
            told.into_iter()
                .map(|event| event.container_id)
                .collect::<Vec<_>>()
        };
        assert_eq!(ids(0), ["2", "1", "3"], "in the order of time");
        assert_eq!(ids(now - 2), ["1", "3"]);
        let first = told(&history, now - 1).remove(0);
        assert_eq!(first.containers_statuses.len(), 1);
        assert_eq!(first.containers_statuses[0].exit_code, 7);
        let pod = first.pod_sandbox_status.unwrap_or_default();
        assert_eq!((pod.labels.len(), pod.annotations.len()), (1, 0));
        assert!(history.bytes < 1000, "{}", history.bytes);
    }

    #[test]
    fn what_is_kept_is_bounded_and_says_from_when_on_it_is_whole() {
        let mut history = History::default();
        let since = history.kept_from;
        for id in 0..4096 {
            history.note(&event(id, 1, ""));
        }
        assert_eq!(history.events.len(), 4096);
        assert_eq!(history.kept_from, since);
        std::thread::sleep(std::time::Duration::from_millis(5));
        history.note(&event(4096, 1, &"x".repeat(MOST_BYTES)));
        assert_eq!(history.events.len(), 4096, "a large one is one like others");
        assert!(history.kept_from > since);
        for id in 0..4096 {
            history.note(&event(id, 1, &"x".repeat(LARGE / 2)));
        }
        let full = 1 << 20;
        assert!(history.bytes <= full && history.bytes > full - LARGE);
        history.clear();
        assert_eq!((history.events.len(), history.bytes), (0, 0));
    }

    #[test]
    fn a_pod_of_huge_names_drives_no_events_of_others_out() {
        let mut history = History::default();
        let since = history.kept_from;
        history.note(&event(0, 1, ""));
        let huge = || "x".repeat(MOST_BYTES / 2);
        let mut large = event(1, 2, &huge());
        let pod = large.pod_sandbox_status.as_mut().unwrap();
        pod.runtime_handler = huge();
        pod.metadata = Some(PodSandboxMetadata {
            name: huge(),
            ..PodSandboxMetadata::default()
        });
        large.containers_statuses[0].reason = huge();
        for _ in 0..8 {
            history.note(&large);
        }
        assert_eq!(history.kept_from, since);
        let told = told(&history, 0);
        assert_eq!(told.len(), 9);
        assert_eq!(told[0].container_id, "0");
        let last = &told[8];
        assert_eq!(last.pod_sandbox_status.as_ref().unwrap().id, "pod");
        let status = &last.containers_statuses[0];
        assert_eq!((status.id.as_str(), status.exit_code), ("1", 7));
        large.container_id = huge();
        large.containers_statuses[0].id = huge();
        history.note(&large);
        assert!(history.bytes < 2 * LARGE, "{}", history.bytes);
    }
}
