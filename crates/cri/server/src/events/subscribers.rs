//! Subscribers of events.
//!
//! A subscriber has a queue that is bounded by number and by size. If it reads too slowly, its subscription ends with
//! a clear status: it can subscribe and list again, but never misses an event unnoticed.
//!
//! A process that subscribes again after its subscription has ended receives the events in between. Kubelets need
//! this: they list all pods themselves only every few minutes. Any other subscriber receives only new events.

use std::collections::{HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use orlop_cri_api::inspection::ListEventsResponse;
use orlop_cri_api::v1::ContainerEventResponse;
use parking_lot::Mutex;
use prost::Message as _;
use tokio::sync::mpsc;
use tonic::Status;

use super::backlog::{Backlog, Run, Ticket};
use super::history::History;
use super::listener::{self, Listener};
use super::subscription::{Subscription, Told};
use super::taken::Taken;
use crate::clock;

/// Maximum number of events in a subscriber's queue.
const QUEUE: usize = 4096;

/// Maximum size in bytes of the events in the queue. A single event is accepted whatever its size.
const QUEUE_BYTES: usize = 4 << 20;

/// The subscribers of `GetContainerEvents`.
#[derive(Debug, Default)]
pub struct Events {
    state: Arc<Mutex<State>>,
    history: Mutex<History>,
    tickets: AtomicU64,
    /// Serialises writers of the listener file, from reading the list to the end of the write.
    writing: Mutex<()>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    subscribers: Vec<Subscriber>,
    backlog: Backlog,
    away: Vec<Away>,
    /// The listeners of an earlier run.
    former: HashSet<Listener>,
    file: Option<PathBuf>,
}

/// A listener whose subscription has ended, or will end once it has read its queue.
#[derive(Debug)]
struct Away {
    listener: Listener,
    /// The number of the first event that it may have missed.
    first: u64,
    since: Instant,
}

#[derive(Debug)]
struct Subscriber {
    listener: Option<Listener>,
    queue: mpsc::Sender<Told>,
    /// Size in bytes of the events in the queue.
    held: Arc<AtomicUsize>,
    taken: Arc<Mutex<Taken>>,
}

impl Events {
    /// Sets how long events are kept for listeners that reconnect. Zero disables the backlog and the history.
    pub fn keep(&self, time: Duration) {
        let mut history = self.history.lock();
        let mut state = self.state.lock();
        let were_kept = !state.backlog.window().is_zero();
        state.backlog.keep(time);
        if !were_kept || time.is_zero() {
            // The history lacks the events of the time it was off, so it starts again empty.
            history.clear();
        }
    }

    /// Adds an event to the history. Its pod's other containers may be missing from the event.
    pub fn note(&self, event: &ContainerEventResponse) {
        if !self.state.lock().backlog.window().is_zero() {
            self.history.lock().note(event);
        }
    }

    /// Returns the events in the history from a time on, in nanoseconds since 1970.
    pub fn since(&self, at: i64) -> ListEventsResponse {
        let kept = !self.state.lock().backlog.window().is_zero();
        if kept {
            return self.history.lock().since(at);
        }
        ListEventsResponse {
            kept_from: clock::now(),
            ..ListEventsResponse::default()
        }
    }

    /// Whether an event of this time, in nanoseconds since 1970, is within the window for listeners that reconnect.
    /// Zero means no time.
    pub fn reaches_back_to(&self, at: i64) -> bool {
        let window = self.state.lock().backlog.window();
        let nanos = i64::try_from(window.as_nanos()).unwrap_or(i64::MAX);
        at > 0 && at >= clock::now().saturating_sub(nanos)
    }

    /// Loads the listeners of an earlier run as disconnected ones, and sets the file that later records the listeners.
    /// Blocks.
    pub fn survive_in(&self, file: &Path) {
        let former = listener::read(file);
        let mut state = self.state.lock();
        let since = Instant::now();
        state.former = former.iter().copied().collect();
        let away = former.into_iter().map(|listener| Away {
            listener,
            first: 0,
            since,
        });
        state.away = away.collect();
        state.file = Some(file.to_owned());
    }

    /// Subscribes to new events, preceded by those that this listener has missed.
    pub fn subscribe(&self, listener: Option<Listener>) -> Subscription {
        let mut state = self.state.lock();
        let place = listener
            .and_then(|listener| state.away.iter().position(|away| away.listener == listener));
        let next = state.backlog.next();
        let (mut first, mut missed) = (next, VecDeque::new());
        if let Some(place) = place {
            first = state.away.remove(place).first;
            let listens_since = state.listens_since(listener);
            missed = state.backlog.since(first, listens_since);
        }
        // One extra slot is reserved for the final status.
        let (queue, events) = mpsc::channel(QUEUE + 1);
        let held = Arc::<AtomicUsize>::default();
        let taken = Arc::new(Mutex::new(Taken::nothing(first, Instant::now())));
        state.subscribers.push(Subscriber {
            listener,
            queue,
            held: Arc::clone(&held),
            taken: Arc::clone(&taken),
        });
        Subscription {
            missed,
            first,
            next,
            events,
            held,
            listener,
            taken,
            state: Arc::clone(&self.state),
        }
    }

    /// Writes the listeners to the file, so that the next run recognises them. Blocks.
    pub fn write_down(&self) {
        let _writing = self.writing.lock();
        let (listeners, file) = {
            let state = self.state.lock();
            let here = state.subscribers.iter().filter_map(|one| one.listener);
            // The listener that disconnected last is the likeliest to reconnect.
            let away = state.away.iter().rev().map(|away| away.listener);
            (here.chain(away).collect::<Vec<_>>(), state.file.clone())
        };
        let Some(file) = file else { return };
        let text = listener::written(&listeners);
        let outlives = orlop_fs::Outlives::Kill;
        if let Err(error) = orlop_fs::write_file(&file, 0o600, outlives, text.as_bytes()) {
            tracing::warn!(%error, "cannot write the list of event subscribers");
        }
    }

    /// Whether there is a current or returning subscriber; otherwise events need not be built.
    pub fn wanted(&self) -> bool {
        let mut state = self.state.lock();
        let window = state.backlog.window();
        state.away.retain(|away| away.since.elapsed() < window);
        !state.subscribers.is_empty() || !state.away.is_empty()
    }

    /// Whether a listener of an earlier run is subscribed or may reconnect.
    pub fn earlier_wanted(&self) -> bool {
        let mut state = self.state.lock();
        let window = state.backlog.window();
        state.away.retain(|away| away.since.elapsed() < window);
        let here = state.subscribers.iter().filter_map(|one| one.listener);
        let away = state.away.iter().map(|away| away.listener);
        here.chain(away)
            .any(|listener| state.former.contains(&listener))
    }

    /// Returns a ticket to publish an event with. It must be taken before the pod status is read.
    pub fn ticket(&self) -> Ticket {
        // A later ticket implies a later read: it sees what was done before this one was taken.
        Ticket(self.tickets.fetch_add(1, Ordering::AcqRel))
    }

    /// Returns the number of subscribers.
    pub fn count(&self) -> usize {
        self.state.lock().subscribers.len()
    }

    /// Sends an event to every subscriber, in the order of the calls.
    pub fn publish(&self, ticket: Ticket, event: &ContainerEventResponse) {
        self.hand_out(ticket, Run::This, event);
    }

    /// Sends an event of an earlier run to the subscribers that also listened to that run.
    pub fn publish_earlier(&self, ticket: Ticket, event: &ContainerEventResponse) {
        self.hand_out(ticket, Run::Earlier, event);
    }

    fn hand_out(&self, ticket: Ticket, run: Run, event: &ContainerEventResponse) {
        let mut state = self.state.lock();
        let number = state.backlog.push(ticket, run, event);
        let size = event.encoded_len();
        let mut subscribers = std::mem::take(&mut state.subscribers);
        subscribers.retain(|subscriber| {
            if run == Run::Earlier && state.listens_since(subscriber.listener) == Run::This {
                return true;
            }
            let held = subscriber.held.load(Ordering::Acquire);
            let fits = held == 0 || held.saturating_add(size) <= QUEUE_BYTES;
            if fits && subscriber.queue.capacity() > 1 {
                subscriber.held.fetch_add(size, Ordering::AcqRel);
                let told = Ok((size, event.clone()));
                return subscriber.queue.try_send((number + 1, told)).is_ok();
            }
            let lag = if fits {
                format!("{QUEUE} events")
            } else {
                format!("{} MiB of events", QUEUE_BYTES >> 20)
            };
            let farewell = Status::data_loss(format!(
                "the subscriber is more than {lag} behind; subscribe again and list all objects \
                 again"
            ));
            let _ = subscriber.queue.try_send((number, Err(farewell)));
            if let Some(listener) = subscriber.listener {
                state.leave(listener, &subscriber.taken);
            }
            false
        });
        state.subscribers = subscribers;
    }
}

impl State {
    /// Returns the run in which a listener first subscribed.
    fn listens_since(&self, listener: Option<Listener>) -> Run {
        if listener.is_some_and(|listener| self.former.contains(&listener)) {
            Run::Earlier
        } else {
            Run::This
        }
    }

    /// Records a listener as disconnected, with the events it has received so far. Replaces an earlier record.
    pub(super) fn leave(&mut self, listener: Listener, taken: &Mutex<Taken>) {
        let since = Instant::now();
        let first = taken.lock().first_unsure(since);
        self.away.retain(|away| away.listener != listener);
        self.away.push(Away {
            listener,
            first,
            since,
        });
        if self.away.len() > listener::MOST {
            self.away.retain(|away| away.listener.lives());
        }
        if self.away.len() > listener::MOST {
            self.away.remove(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{Ready, ready};
    use std::task::{Context, Poll};

    use futures_util::{FutureExt as _, StreamExt as _};
    use orlop_cri_api::v1::runtime_service_client::RuntimeServiceClient;
    use orlop_cri_api::v1::{ContainerStatus, GetEventsRequest, PodSandboxStatus};
    use tonic::codegen::{Body, BoxFuture, Service, StdError, http};

    use super::*;

    fn event(id: usize) -> ContainerEventResponse {
        ContainerEventResponse {
            container_id: id.to_string(),
            ..Default::default()
        }
    }

    #[tokio::test]
    async fn events_arrive_in_order() {
        let events = Events::default();
        assert!(!events.wanted());
        let mut queue = events.subscribe(None);
        (0..1000).for_each(|id| events.publish(events.ticket(), &event(id)));
        for id in 0..1000 {
            assert_eq!(
                queue.next().await.unwrap().unwrap().container_id,
                id.to_string()
            );
        }
    }

    #[tokio::test]
    async fn a_stalled_subscriber_is_told_and_let_go() {
        let events = Events::default();
        let mut stalled = events.subscribe(None);
        (0..4096 + 10).for_each(|id| events.publish(events.ticket(), &event(id)));
        assert!(!events.wanted());
        let mut got = 0;
        let farewell = loop {
            match stalled.next().await.unwrap() {
                Ok(event) => assert_eq!(event.container_id, got.to_string()),
                Err(status) => break status,
            }
            got += 1;
        };
        assert_eq!(got, 4096);
        assert_eq!(farewell.code(), tonic::Code::DataLoss);
        assert!(stalled.next().await.is_none());
    }

    #[tokio::test]
    async fn a_stalled_subscriber_holds_no_more_than_some_megabytes() {
        const SIZE: usize = 1 << 20;
        let events = Events::default();
        let large = |id| ContainerEventResponse {
            containers_statuses: vec![ContainerStatus {
                message: "x".repeat(SIZE),
                ..Default::default()
            }],
            ..event(id)
        };
        let mut stalled = events.subscribe(None);
        let mut reading = events.subscribe(None);
        for id in 0..64 {
            events.publish(events.ticket(), &large(id));
            let told = reading.next().await.unwrap().unwrap();
            assert_eq!(told.container_id, id.to_string());
        }
        assert_eq!(events.count(), 1, "who reads stays");
        let mut bytes = 0;
        let farewell = loop {
            match stalled.next().await.unwrap() {
                Ok(event) => bytes += event.encoded_len(),
                Err(status) => break status,
            }
        };
        assert!((3 << 20..=4 << 20).contains(&bytes), "{bytes}");
        assert_eq!(farewell.code(), tonic::Code::DataLoss);
        assert!(farewell.message().contains("4 MiB of events behind"));
        // A single event larger than the queue limit is delivered.
        let huge = ContainerEventResponse {
            container_id: "y".repeat(2 * QUEUE_BYTES),
            ..Default::default()
        };
        for _ in 0..2 {
            events.publish(events.ticket(), &huge);
            let told = reading.next().await.unwrap().unwrap();
            assert_eq!(told.container_id.len(), 2 * QUEUE_BYTES);
        }
    }

    /// A service that only implements `GetContainerEvents`, with these events.
    #[derive(Clone)]
    struct Told(std::sync::Arc<Events>);

    impl tonic::server::NamedService for Told {
        const NAME: &'static str = "runtime.v1.RuntimeService";
    }

    impl tonic::server::ServerStreamingService<GetEventsRequest> for Told {
        type Response = ContainerEventResponse;
        type ResponseStream = Subscription;
        type Future = Ready<Result<tonic::Response<Self::ResponseStream>, Status>>;

        fn call(&mut self, _: tonic::Request<GetEventsRequest>) -> Self::Future {
            ready(Ok(tonic::Response::new(self.0.subscribe(None))))
        }
    }

    impl<B> Service<http::Request<B>> for Told
    where
        B: Body + Send + 'static,
        B::Error: Into<StdError> + Send + 'static,
    {
        type Response = http::Response<tonic::body::Body>;
        type Error = std::convert::Infallible;
        type Future = BoxFuture<Self::Response, Self::Error>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: http::Request<B>) -> Self::Future {
            let told = self.clone();
            Box::pin(async move {
                let mut grpc = tonic::server::Grpc::new(tonic_prost::ProstCodec::default());
                Ok(grpc.server_streaming(told, request).await)
            })
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn ten_thousand_events_a_second_reach_a_subscriber_in_order() {
        const PROMISED: usize = 10_000;
        const SECONDS: usize = 3;
        // Faster than promised, so that a subscriber that keeps up has a fifth of the time to spare.
        const PUBLISHED: usize = 12_500;
        let events = std::sync::Arc::new(Events::default());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let incoming = futures_util::stream::unfold(listener, |listener| async {
            let accepted = listener.accept().await.map(|(socket, _)| socket);
            Some((accepted, listener))
        });
        let server = tonic::transport::Server::builder()
            .add_service(Told(events.clone()))
            .serve_with_incoming(Box::pin(incoming));
        let server = tokio::spawn(server);
        let endpoint = tonic::transport::Endpoint::try_from(format!("http://{address}"));
        let mut client = RuntimeServiceClient::new(endpoint.unwrap().connect().await.unwrap());
        let answer = client.get_container_events(GetEventsRequest {}).await;
        let mut told = answer.unwrap().into_inner();

        let begin = std::time::Instant::now();
        let publisher = std::thread::spawn(move || {
            // As large as the event of a pod with one container.
            let mut event = event(0);
            event.pod_sandbox_status = Some(PodSandboxStatus {
                id: "a".repeat(64),
                labels: (0..8)
                    .map(|n| (format!("label-{n}"), "value".repeat(4)))
                    .collect(),
                ..Default::default()
            });
            event.containers_statuses = vec![ContainerStatus::default()];
            for id in 0..PROMISED * SECONDS {
                let due = begin + std::time::Duration::from_secs_f64(id as f64 / PUBLISHED as f64);
                let early = due.saturating_duration_since(std::time::Instant::now());
                if early > std::time::Duration::from_millis(1) {
                    std::thread::sleep(early);
                }
                event.container_id = id.to_string();
                events.publish(events.ticket(), &event);
            }
        });
        for id in 0..PROMISED * SECONDS {
            let event = told.message().await.unwrap().unwrap();
            assert_eq!(event.container_id, id.to_string());
        }
        let took = begin.elapsed().as_secs_f64();
        publisher.join().unwrap();
        server.abort();
        // A subscriber that did not keep up would have been cut off: see above.
        assert!(
            took <= SECONDS as f64,
            "{took} s for {PROMISED} events a second during {SECONDS} s"
        );
    }

    /// This process as a listener.
    fn listener() -> Listener {
        Listener::of(super::super::Caller(std::process::id())).unwrap()
    }

    /// Takes the events that are available without waiting.
    fn taken(subscription: &mut Subscription) -> Vec<String> {
        let mut ids = Vec::new();
        while let Some(Some(Ok(event))) = subscription.next().now_or_never() {
            ids.push(event.container_id);
        }
        ids
    }

    #[test]
    fn a_listener_that_is_let_go_misses_nothing_either() {
        let events = Events::default();
        events.keep(Duration::from_mins(1));
        let mut stalled = events.subscribe(Some(listener()));
        (0..=QUEUE).for_each(|id| events.publish(events.ticket(), &event(id)));
        assert_eq!(events.count(), 0);
        assert!(events.wanted(), "it may come back");
        events.publish(events.ticket(), &event(QUEUE + 1));
        // A new connection may open before the end of the old one is noticed.
        let mut again = events.subscribe(Some(listener()));
        let told = taken(&mut again);
        assert_eq!(told.first().unwrap(), "2", "the first that is kept");
        assert_eq!(told.last().unwrap(), &(QUEUE + 1).to_string());
        drop(again);
        // Events taken from the old one until its end count.
        assert_eq!(taken(&mut stalled).len(), QUEUE);
        std::thread::sleep(Duration::from_millis(1100));
        drop(stalled);
        let told = taken(&mut events.subscribe(Some(listener())));
        assert_eq!(told, [QUEUE, QUEUE + 1].map(|id| id.to_string()));
    }

    #[tokio::test]
    async fn who_has_left_is_forgotten() {
        let events = Events::default();
        drop(events.subscribe(None));
        events.publish(events.ticket(), &event(1));
        assert!(!events.wanted());
    }

    #[test]
    fn what_is_on_record_of_long_ago_is_not_told() {
        let events = Events::default();
        events.keep(Duration::from_mins(1));
        let second = 1_000_000_000;
        assert!(events.reaches_back_to(clock::now() - 50 * second));
        assert!(!events.reaches_back_to(clock::now() - 61 * second));
        events.keep(Duration::MAX);
        assert!(events.reaches_back_to(1));
        assert!(!events.reaches_back_to(0));
    }

    #[test]
    fn what_is_kept_is_not_said_to_be_whole_over_a_time_when_none_was() {
        let pause = || std::thread::sleep(Duration::from_millis(5));
        let minute = Duration::from_mins(1);
        let started_without = Events::default();
        started_without.keep(Duration::ZERO);
        let reloaded = Events::default();
        reloaded.keep(minute);
        reloaded.note(&event(0));
        reloaded.keep(Duration::ZERO);
        for events in [started_without, reloaded] {
            pause();
            events.note(&event(1));
            let missed = clock::now();
            pause();
            events.keep(minute);
            events.note(&event(2));
            let kept = events.since(0);
            assert_eq!(kept.events.len(), 1);
            assert!(kept.kept_from > missed);
            events.keep(2 * minute);
            let longer = events.since(0);
            assert_eq!(longer.kept_from, kept.kept_from, "none was missed");
            assert_eq!(longer.events.len(), 1);
        }
    }

    #[test]
    fn dead_listeners_drive_no_living_one_out() {
        let events = Events::default();
        events.keep(Duration::from_mins(1));
        drop(events.subscribe(Some(listener())));
        for age in 1..=listener::MOST as u64 + 10 {
            drop(events.subscribe(Some(listener().former(age))));
        }
        assert!(events.state.lock().away.len() <= listener::MOST);
        events.publish(events.ticket(), &event(1));
        assert_eq!(taken(&mut events.subscribe(Some(listener()))), ["1"]);
    }

    #[test]
    fn many_write_down_at_once_who_listens() {
        const THREADS: usize = 8;
        let directory = tempfile::tempdir().unwrap();
        for round in 0..40 {
            let file = directory.path().join(round.to_string());
            let events = Events::default();
            events.keep(Duration::from_mins(1));
            events.survive_in(&file);
            let together = std::sync::Barrier::new(THREADS);
            std::thread::scope(|scope| {
                for _ in 0..THREADS {
                    scope.spawn(|| {
                        // The kernel reports the same facts about a thread as about a process.
                        let thread = rustix::thread::gettid().as_raw_nonzero().get();
                        let caller = super::super::Caller(thread.try_into().unwrap());
                        let listener = Listener::of(caller).unwrap();
                        together.wait();
                        let _listens = events.subscribe(Some(listener));
                        events.write_down();
                        together.wait();
                        let is_there = listener::read(&file).contains(&listener);
                        together.wait();
                        assert!(is_there, "{round}");
                    });
                }
            });
        }
    }
}
