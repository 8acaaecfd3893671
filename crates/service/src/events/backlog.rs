//! The latest events. Of each only is kept what happened to whom, and of each pod how it is now: a
//! kubelet takes what an event says of a pod for the truth, whenever it happened.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use orlop_cri::v1::{ContainerEventResponse, ContainerStatus, PodSandboxStatus};
use prost::Message as _;

use crate::clock;

/// Events that are kept at most.
const MOST: usize = 4096;

/// Bytes of what is known of pods that are kept at most.
const MOST_BYTES: usize = 8 << 20;

/// Events not older than some time.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    window: Duration,
    entries: VecDeque<Entry>,
    pods: HashMap<String, Known>,
    bytes: usize,
    next: u64,
}

#[derive(Debug)]
struct Entry {
    number: u64,
    container: String,
    kind: i32,
    at: i64,
    pod: String,
}

/// How a pod is, by the last event of it.
#[derive(Debug, Default)]
struct Known {
    status: Option<PodSandboxStatus>,
    containers: Vec<ContainerStatus>,
    bytes: usize,
    /// Entries that are about it.
    entries: usize,
}

impl Backlog {
    /// How long events are kept from now on.
    pub(super) fn keep(&mut self, window: Duration) {
        self.window = window;
        self.forget_old();
    }

    /// How long they are.
    pub(super) fn window(&self) -> Duration {
        self.window
    }

    fn is_kept(&self) -> bool {
        !self.window.is_zero()
    }

    /// The number that the next event gets.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Takes an event, and gives it its number.
    pub(super) fn push(&mut self, event: &ContainerEventResponse) -> u64 {
        let number = self.next;
        self.next += 1;
        if !self.is_kept() {
            return number;
        }
        let status = event.pod_sandbox_status.as_ref();
        let pod = status.map_or(&event.container_id, |status| &status.id);
        let known = self.pods.entry(pod.clone()).or_default();
        known.entries += 1;
        self.bytes -= known.bytes;
        known.bytes = event.encoded_len();
        self.bytes += known.bytes;
        known.status.clone_from(&event.pod_sandbox_status);
        known.containers.clone_from(&event.containers_statuses);
        self.entries.push_back(Entry {
            number,
            container: event.container_id.clone(),
            kind: event.container_event_type,
            at: event.created_at,
            pod: pod.clone(),
        });
        self.forget_old();
        number
    }

    /// The events from a number on, in the order of time, each with its pod as it is now.
    pub(super) fn since(&mut self, number: u64) -> Vec<ContainerEventResponse> {
        self.forget_old();
        let wanted = self.entries.iter().filter(|entry| entry.number >= number);
        let mut events: Vec<_> = wanted
            .filter_map(|entry| {
                let known = self.pods.get(&entry.pod)?;
                Some(ContainerEventResponse {
                    container_id: entry.container.clone(),
                    container_event_type: entry.kind,
                    created_at: entry.at,
                    pod_sandbox_status: known.status.clone(),
                    containers_statuses: known.containers.clone(),
                })
            })
            .collect();
        events.sort_by_key(|event| event.created_at);
        events
    }

    /// The number of the first event that was not long before.
    pub(super) fn shortly_before(&self, number: u64, overlap: Duration) -> u64 {
        let limit = before_now(overlap);
        let recent = self.entries.iter().rev();
        let mut first = number;
        for entry in recent.skip_while(|entry| entry.number >= number) {
            if entry.at < limit {
                break;
            }
            first = entry.number;
        }
        first
    }

    fn forget_old(&mut self) {
        let limit = before_now(self.window);
        while let Some(first) = self.entries.front() {
            let fits = self.entries.len() <= MOST && self.bytes <= MOST_BYTES;
            if fits && self.is_kept() && first.at >= limit {
                break;
            }
            let Some(entry) = self.entries.pop_front() else {
                break;
            };
            if let Some(known) = self.pods.get_mut(&entry.pod) {
                known.entries -= 1;
                if known.entries == 0 {
                    self.bytes -= known.bytes;
                    self.pods.remove(&entry.pod);
                }
            }
        }
    }
}

fn before_now(time: Duration) -> i64 {
    let nanos = i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
    clock::now().saturating_sub(nanos)
}

#[cfg(test)]
mod tests {
    use orlop_cri::v1::PodSandboxState;

    use super::*;

    fn event(pod: &str, at: i64, state: PodSandboxState) -> ContainerEventResponse {
        let mut status = PodSandboxStatus {
            id: pod.into(),
            ..Default::default()
        };
        status.set_state(state);
        ContainerEventResponse {
            container_id: format!("{pod}-main"),
            created_at: at,
            pod_sandbox_status: Some(status),
            ..Default::default()
        }
    }

    fn kept(window: u64) -> Backlog {
        let mut backlog = Backlog::default();
        backlog.keep(Duration::from_secs(window));
        backlog
    }

    #[test]
    fn an_old_event_tells_the_pod_as_it_is_now() {
        let (mut backlog, now) = (kept(60), clock::now());
        backlog.push(&event("a", now - 2, PodSandboxState::SandboxReady));
        backlog.push(&event("b", now - 3, PodSandboxState::SandboxReady));
        backlog.push(&event("a", now - 1, PodSandboxState::SandboxNotready));
        let told = backlog.since(0);
        let times: Vec<i64> = told.iter().map(|event| event.created_at - now).collect();
        assert_eq!(times, [-3, -2, -1], "in the order of time");
        let state = |at: usize| told[at].pod_sandbox_status.as_ref().unwrap().state();
        assert_eq!(state(0), PodSandboxState::SandboxReady);
        assert_eq!(state(1), PodSandboxState::SandboxNotready);
        assert_eq!(backlog.since(2).len(), 1);
        assert_eq!(backlog.since(3).len(), 0);
    }

    #[test]
    fn events_are_bounded_by_time_number_and_size() {
        let (mut backlog, now) = (kept(60), clock::now());
        backlog.push(&event(
            "old",
            now - 61_000_000_000,
            PodSandboxState::SandboxReady,
        ));
        assert_eq!(backlog.since(0).len(), 0);
        for n in 0..MOST + 10 {
            backlog.push(&event(&n.to_string(), now, PodSandboxState::SandboxReady));
        }
        assert_eq!(backlog.since(0).len(), MOST);
        assert_eq!(backlog.pods.len(), MOST);
        let mut large = event("large", now, PodSandboxState::SandboxReady);
        large.containers_statuses = vec![ContainerStatus {
            message: "x".repeat(MOST_BYTES),
            ..Default::default()
        }];
        backlog.push(&large);
        assert_eq!(
            (backlog.entries.len(), backlog.pods.len(), backlog.bytes),
            (0, 0, 0)
        );
        backlog.push(&event("a", now, PodSandboxState::SandboxReady));
        backlog.keep(Duration::ZERO);
        assert_eq!((backlog.pods.len(), backlog.bytes), (0, 0));
        backlog.push(&event("a", now, PodSandboxState::SandboxReady));
        assert_eq!(backlog.since(0).len(), 0);
    }
}
