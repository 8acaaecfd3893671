//! Backlog of recent events. For each event only the container and the change are kept, and for each pod its latest
//! status. A kubelet takes the pod status in an event as current, however old the event is.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use orlop_cri_api::v1::{ContainerEventResponse, ContainerStatus, PodSandboxStatus};
use prost::Message as _;

/// Maximum number of events kept.
pub(super) const MOST: usize = 4096;

/// Maximum size in bytes of the pod statuses kept.
const MOST_BYTES: usize = 8 << 20;

/// The order of reads of pod statuses: a later read contains every change that an earlier read was told about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub(super) u64);

/// The daemon run that an event belongs to. A subscriber of this run does not get events of an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Run {
    This,
    Earlier,
}

/// The events that were published within the window. The time of the change itself does not matter: it may be detected
/// late, and the clock may be set.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    window: Duration,
    entries: VecDeque<Arc<Entry>>,
    pods: HashMap<String, Pod>,
    bytes: usize,
    next: u64,
}

#[derive(Debug)]
struct Entry {
    number: u64,
    told: Instant,
    container: String,
    kind: i32,
    at: i64,
    pod: String,
    run: Run,
}

#[derive(Debug, Default)]
struct Pod {
    known: Arc<Known>,
    /// The ticket of the read that produced the status.
    ticket: Option<Ticket>,
    bytes: usize,
    /// Number of entries about the pod.
    entries: usize,
}

/// The status of a pod.
#[derive(Debug, Default)]
struct Known {
    status: Option<PodSandboxStatus>,
    containers: Vec<ContainerStatus>,
}

/// An event that a subscriber missed, with the pod status at the time it returned. Both are shared, and the full
/// message is built only for sending.
#[derive(Debug)]
pub(super) struct Missed {
    entry: Arc<Entry>,
    known: Arc<Known>,
}

impl Missed {
    /// Builds the response for the subscriber.
    pub(super) fn response(&self) -> ContainerEventResponse {
        ContainerEventResponse {
            container_id: self.entry.container.clone(),
            container_event_type: self.entry.kind,
            created_at: self.entry.at,
            pod_sandbox_status: self.known.status.clone(),
            containers_statuses: self.known.containers.clone(),
        }
    }
}

impl Backlog {
    /// Sets how long events are kept.
    pub(super) fn keep(&mut self, window: Duration) {
        self.window = window;
        self.forget_old();
    }

    /// Returns how long events are kept.
    pub(super) fn window(&self) -> Duration {
        self.window
    }

    fn is_kept(&self) -> bool {
        !self.window.is_zero()
    }

    /// Returns the number of the next event.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Adds an event and returns its number. The ticket was taken before the pod status was read.
    pub(super) fn push(&mut self, ticket: Ticket, run: Run, event: &ContainerEventResponse) -> u64 {
        let number = self.next;
        self.next += 1;
        if !self.is_kept() {
            return number;
        }
        let status = event.pod_sandbox_status.as_ref();
        let id = status.map_or(&event.container_id, |status| &status.id);
        let pod = self.pods.entry(id.clone()).or_default();
        pod.entries += 1;
        if pod.ticket < Some(ticket) {
            pod.ticket = Some(ticket);
            self.bytes -= pod.bytes;
            pod.bytes = event.encoded_len();
            self.bytes += pod.bytes;
            pod.known = Arc::new(Known {
                status: event.pod_sandbox_status.clone(),
                containers: event.containers_statuses.clone(),
            });
        }
        self.entries.push_back(Arc::new(Entry {
            number,
            told: Instant::now(),
            container: event.container_id.clone(),
            kind: event.container_event_type,
            at: event.created_at,
            pod: id.clone(),
            run,
        }));
        self.forget_old();
        number
    }

    /// Returns the events from a number on, in chronological order, each with its pod's latest status. `listens_since`
    /// is the run in which the subscriber first subscribed.
    pub(super) fn since(&mut self, number: u64, listens_since: Run) -> VecDeque<Missed> {
        self.forget_old();
        let wanted = self.entries.iter().filter(|entry| {
            let is_meant = entry.run == Run::This || listens_since == Run::Earlier;
            entry.number >= number && is_meant
        });
        let mut missed: Vec<_> = wanted
            .filter_map(|entry| {
                Some(Missed {
                    entry: Arc::clone(entry),
                    known: Arc::clone(&self.pods.get(&entry.pod)?.known),
                })
            })
            .collect();
        missed.sort_by_key(|missed| missed.entry.at);
        missed.into()
    }

    fn forget_old(&mut self) {
        while let Some(first) = self.entries.front() {
            let fits = self.entries.len() <= MOST && self.bytes <= MOST_BYTES;
            if fits && first.told.elapsed() < self.window {
                break;
            }
            let Some(entry) = self.entries.pop_front() else {
                break;
            };
            if let Some(pod) = self.pods.get_mut(&entry.pod) {
                pod.entries -= 1;
                if pod.entries == 0 {
                    self.bytes -= pod.bytes;
                    self.pods.remove(&entry.pod);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use orlop_cri_api::v1::PodSandboxState;

    use super::*;
    use crate::clock;

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

    fn kept(window: Duration) -> Backlog {
        let mut backlog = Backlog::default();
        backlog.keep(window);
        backlog
    }

    impl Backlog {
        /// Publishes an event whose pod status was read just now.
        fn push_now(&mut self, event: &ContainerEventResponse) {
            self.push(Ticket(self.next), Run::This, event);
        }

        fn told(&mut self) -> Vec<ContainerEventResponse> {
            self.since(0, Run::This)
                .iter()
                .map(Missed::response)
                .collect()
        }
    }

    fn state(event: &ContainerEventResponse) -> PodSandboxState {
        event.pod_sandbox_status.as_ref().unwrap().state()
    }

    #[test]
    fn an_old_event_tells_the_pod_as_it_is_now() {
        let (mut backlog, now) = (kept(Duration::from_mins(1)), clock::now());
        backlog.push_now(&event("a", now - 2, PodSandboxState::SandboxReady));
        backlog.push_now(&event("b", now - 3, PodSandboxState::SandboxReady));
        backlog.push_now(&event("a", now - 1, PodSandboxState::SandboxNotready));
        let told = backlog.told();
        let times: Vec<i64> = told.iter().map(|event| event.created_at - now).collect();
        assert_eq!(times, [-3, -2, -1], "in the order of time");
        assert_eq!(state(&told[0]), PodSandboxState::SandboxReady);
        assert_eq!(state(&told[1]), PodSandboxState::SandboxNotready);
        assert_eq!(backlog.since(2, Run::This).len(), 1);
        assert_eq!(backlog.since(3, Run::This).len(), 0);
    }

    #[test]
    fn who_looked_first_and_told_last_does_not_have_the_last_word() {
        let (mut backlog, now) = (kept(Duration::from_mins(1)), clock::now());
        let (first, second) = (Ticket(0), Ticket(1));
        let end = event("a", now, PodSandboxState::SandboxNotready);
        backlog.push(second, Run::This, &end);
        backlog.push(
            first,
            Run::This,
            &event("a", now + 1, PodSandboxState::SandboxReady),
        );
        let told = backlog.told();
        assert_eq!(told.len(), 2);
        for event in &told {
            assert_eq!(state(event), PodSandboxState::SandboxNotready);
        }
        assert_eq!(backlog.bytes, end.encoded_len());
    }

    #[test]
    fn events_are_bounded_by_time_number_and_size() {
        let (mut backlog, now) = (kept(Duration::from_millis(20)), clock::now());
        backlog.push_now(&event("old", now, PodSandboxState::SandboxReady));
        std::thread::sleep(Duration::from_millis(30));
        assert_eq!(backlog.since(0, Run::This).len(), 0);
        backlog.keep(Duration::from_mins(1));
        for n in 0..4096 + 10 {
            backlog.push_now(&event(&n.to_string(), now, PodSandboxState::SandboxReady));
        }
        assert_eq!(backlog.since(0, Run::This).len(), 4096);
        assert_eq!(backlog.pods.len(), 4096);
        let large = |bytes: usize| ContainerEventResponse {
            containers_statuses: vec![ContainerStatus {
                message: "x".repeat(bytes),
                ..Default::default()
            }],
            ..event("large", now, PodSandboxState::SandboxReady)
        };
        backlog.push_now(&large(7 << 20));
        assert_eq!(backlog.entries.len(), 4096, "7 MiB and small ones fit");
        assert!(backlog.pods.contains_key("large"));
        backlog.push_now(&large(8 << 20));
        assert_eq!(
            (backlog.entries.len(), backlog.pods.len(), backlog.bytes),
            (0, 0, 0)
        );
        backlog.push_now(&event("a", now, PodSandboxState::SandboxReady));
        backlog.keep(Duration::ZERO);
        assert_eq!((backlog.pods.len(), backlog.bytes), (0, 0));
        backlog.push_now(&event("a", now, PodSandboxState::SandboxReady));
        assert_eq!(backlog.since(0, Run::This).len(), 0);
    }

    #[test]
    fn what_is_learnt_late_and_a_clock_that_is_set_cost_no_event() {
        let (mut backlog, now) = (kept(Duration::from_mins(1)), clock::now());
        let hour = 3_600_000_000_000;
        for at in [now - hour, now, now - 24 * hour, now + hour] {
            backlog.push_now(&event("a", at, PodSandboxState::SandboxReady));
        }
        assert_eq!(backlog.since(0, Run::This).len(), 4);
    }
}
