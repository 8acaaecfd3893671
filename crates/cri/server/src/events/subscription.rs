//! A subscription to events.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Instant;

use futures_util::Stream;
use orlop_cri_api::v1::ContainerEventResponse;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tonic::Status;

use super::backlog::Missed;
use super::listener::Listener;
use super::subscribers::State;
use super::taken::Taken;

/// The number of the following event, with an event and its size or the final status.
pub(super) type Told = (u64, Result<(usize, ContainerEventResponse), Status>);

/// A subscription to events, until it is dropped.
#[derive(Debug)]
pub struct Subscription {
    /// The missed events that are not sent yet.
    pub(super) missed: VecDeque<Missed>,
    /// The number of the first event that it may have missed.
    pub(super) first: u64,
    /// The number of the first event that it has not missed.
    pub(super) next: u64,
    pub(super) events: mpsc::Receiver<Told>,
    /// Size in bytes of the events in the queue.
    pub(super) held: Arc<AtomicUsize>,
    pub(super) listener: Option<Listener>,
    pub(super) taken: Arc<Mutex<Taken>>,
    pub(super) state: Arc<Mutex<State>>,
}

impl Stream for Subscription {
    type Item = Result<ContainerEventResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let told = if let Some(missed) = self.missed.pop_front() {
            // Missed events come in chronological order: a listener that disconnects before it has all of them gets
            // all again.
            let all = self.missed.is_empty();
            let next = if all { self.next } else { self.first };
            Some((next, Ok(missed.response())))
        } else {
            let told = std::task::ready!(self.events.poll_recv(context));
            told.map(|(next, told)| (next, told.map(|(size, event)| self.let_go(size, event))))
        };
        Poll::Ready(told.map(|(next, event)| {
            self.taken.lock().hand_over(next, Instant::now());
            event
        }))
    }
}

impl Subscription {
    /// Subtracts an event that has left the queue.
    fn let_go(&self, size: usize, event: ContainerEventResponse) -> ContainerEventResponse {
        self.held.fetch_sub(size, Ordering::AcqRel);
        event
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(listener) = self.listener {
            self.state.lock().leave(listener, &self.taken);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::{FutureExt as _, StreamExt as _};
    use orlop_cri_api::v1::{ContainerStatus, PodSandboxStatus};

    use super::*;
    use crate::events::{Caller, Events};

    fn event(id: usize) -> ContainerEventResponse {
        ContainerEventResponse {
            container_id: id.to_string(),
            ..Default::default()
        }
    }

    /// This process as a listener.
    fn listener() -> Listener {
        Listener::of(Caller(std::process::id())).unwrap()
    }

    fn at(id: usize, before: Duration) -> ContainerEventResponse {
        let before = i64::try_from(before.as_nanos()).unwrap();
        ContainerEventResponse {
            created_at: crate::clock::now() - before,
            ..event(id)
        }
    }

    /// Takes the events that are available without waiting.
    fn taken(subscription: &mut Subscription) -> Vec<String> {
        let mut ids = Vec::new();
        while let Some(Some(told)) = subscription.next().now_or_never() {
            ids.push(told.unwrap().container_id);
        }
        ids
    }

    #[test]
    fn who_comes_back_is_told_what_it_missed() {
        let events = Events::default();
        events.keep(Duration::from_mins(1));
        let long_ago = Duration::from_secs(30);
        events.publish(events.ticket(), &at(0, long_ago));
        let mut first = events.subscribe(Some(listener()));
        events.publish(events.ticket(), &at(1, long_ago));
        assert_eq!(taken(&mut first), ["1"], "nothing old for a new one");
        let arrives = || std::thread::sleep(Duration::from_millis(1100));
        arrives();
        events.publish(events.ticket(), &at(2, long_ago));
        drop(first);
        events.publish(events.ticket(), &at(3, Duration::ZERO));
        assert_eq!(taken(&mut events.subscribe(None)), [""; 0]);
        let mut again = events.subscribe(Some(listener()));
        events.publish(events.ticket(), &at(4, Duration::ZERO));
        assert_eq!(taken(&mut again), ["2", "3", "4"]);
        drop(again);
        let mut third = events.subscribe(Some(listener()));
        let on_their_way = "what was handed over within a second may not have arrived";
        assert_eq!(taken(&mut third), ["2", "3", "4"], "{on_their_way}");
        arrives();
        // An exit that is detected late does not hide earlier events.
        events.publish(events.ticket(), &at(5, Duration::ZERO));
        events.publish(events.ticket(), &at(6, long_ago));
        assert_eq!(taken(&mut third), ["5", "6"]);
        drop(third);
        drop(events.subscribe(Some(listener())));
        let mut fourth = events.subscribe(Some(listener()));
        assert_eq!(
            taken(&mut fourth),
            ["6", "5"],
            "and the others have arrived"
        );
    }

    /// Returns the resident memory of this process in bytes.
    fn resident() -> u64 {
        let sizes = orlop_fs::read_kernel_text("/proc/self/statm").unwrap();
        let pages: u64 = sizes.split(' ').nth(1).unwrap().parse().unwrap();
        pages * rustix::param::page_size() as u64
    }

    #[test]
    fn what_was_missed_is_no_larger_than_its_pods_until_it_is_told() {
        const POD: usize = 1 << 20;
        let events = Events::default();
        events.keep(Duration::from_mins(1));
        drop(events.subscribe(Some(listener())));
        let large = ContainerEventResponse {
            containers_statuses: vec![ContainerStatus {
                message: "x".repeat(POD),
                ..Default::default()
            }],
            pod_sandbox_status: Some(PodSandboxStatus {
                id: "large".into(),
                ..Default::default()
            }),
            ..Default::default()
        };
        for id in 0..4096 {
            let event = ContainerEventResponse {
                container_id: id.to_string(),
                ..large.clone()
            };
            events.publish(events.ticket(), &event);
        }
        let before = resident();
        let mut again = events.subscribe(Some(listener()));
        let held = resident().saturating_sub(before);
        assert!(held < 64 * POD as u64, "{held} bytes");
        for id in 0..4096 {
            let told = again.next().now_or_never().unwrap().unwrap().unwrap();
            assert_eq!(told.container_id, id.to_string());
            assert_eq!(told.containers_statuses[0].message.len(), POD);
        }
    }

    #[test]
    fn who_listened_to_an_earlier_run_comes_back_too() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("listeners");
        let run = || {
            let events = Events::default();
            events.keep(Duration::from_mins(1));
            events.survive_in(&file);
            events
        };
        let before = run();
        let listens = before.subscribe(Some(listener()));
        before.write_down();
        drop((listens, before));
        let after = run();
        after.publish(after.ticket(), &at(1, Duration::from_secs(10)));
        assert_eq!(taken(&mut after.subscribe(Some(listener()))), ["1"]);
    }

    #[test]
    fn only_who_listened_to_an_earlier_run_hears_of_it() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("listeners");
        let events = Events::default();
        events.keep(Duration::from_mins(1));
        let former = listener();
        let before = events.subscribe(Some(former));
        events.survive_in(&file);
        events.write_down();
        drop((before, events));
        let events = Events::default();
        events.keep(Duration::from_mins(1));
        events.survive_in(&file);
        assert!(events.earlier_wanted());
        // Another process is new.
        let new = Listener::of(Caller(1)).unwrap();
        let mut nameless = events.subscribe(None);
        let mut fresh = events.subscribe(Some(new));
        let early = events.subscribe(Some(former));
        events.publish_earlier(events.ticket(), &at(1, Duration::from_secs(10)));
        events.publish(events.ticket(), &at(2, Duration::ZERO));
        assert_eq!(taken(&mut nameless), ["2"]);
        assert_eq!(taken(&mut fresh), ["2"]);
        drop((early, fresh));
        let mut back = events.subscribe(Some(former));
        assert_eq!(taken(&mut back), ["1", "2"], "whenever it comes");
        let mut fresh = events.subscribe(Some(new));
        assert_eq!(taken(&mut fresh), ["2"], "nor when it comes again");
        let nobody = Events::default();
        nobody.keep(Duration::from_mins(1));
        let _listens = nobody.subscribe(Some(former));
        assert!(nobody.wanted() && !nobody.earlier_wanted());
    }
}
