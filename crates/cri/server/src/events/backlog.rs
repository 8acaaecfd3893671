//! The latest events. Of each only is kept what happened to whom, and of each pod how it is now: a
//! kubelet takes what an event says of a pod for the truth, whenever it happened.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use orlop_cri_api::v1::{ContainerEventResponse, ContainerStatus, PodSandboxStatus};
use prost::Message as _;

/// Events that are kept at most.
pub(super) const MOST: usize = 4096;

/// Bytes of what is known of pods that are kept at most.
const MOST_BYTES: usize = 8 << 20;

/// When it was that somebody began to look at a pod: what a later one saw holds whatever an earlier
/// one was told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub(super) u64);

/// Which run of the daemon an event is of: who began to listen to this one hears nothing of an earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Run {
    This,
    Earlier,
}

/// Events that were told not longer ago than some time. When they happened does not matter: an end may
/// be learnt of late, and the clock may be set.
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
    /// Of who looked.
    ticket: Option<Ticket>,
    bytes: usize,
    /// Entries that are about it.
    entries: usize,
}

/// How a pod is.
#[derive(Debug, Default)]
struct Known {
    status: Option<PodSandboxStatus>,
    containers: Vec<ContainerStatus>,
}

/// An event that somebody has missed, with its pod as it was when that came back. It shares both with
/// the others, and is as large as the pod only when it is made a response.
#[derive(Debug)]
pub(super) struct Missed {
    entry: Arc<Entry>,
    known: Arc<Known>,
}

impl Missed {
    /// What the listener is told.
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

    /// Takes an event, and gives it its number. The ticket is of before its pod was looked at.
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

    /// The events from a number on, in the order of time, each with its pod as it is now, for one who listens
    /// since some run.
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
        /// By who looks only now.
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
