//! Who listens.
//!
//! A subscriber has a bounded queue. One that reads too slowly loses its subscription with
//! a clear status: it can subscribe and list anew, but it never misses an event unawares.
//!
//! A process whose subscription has ended and that subscribes again is told what happened between: kubelets
//! do so, and look at all pods by themselves only every few minutes. Whoever else subscribes hears what
//! happens from then on.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::Stream;
use orlop_cri::v1::ContainerEventResponse;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tonic::Status;

use super::backlog::Backlog;
use super::listener::{self, Listener};

/// Events that a subscriber may lag behind.
const QUEUE: usize = 4096;

/// What was handed on shortly before a subscription ended may not have arrived, and is told again.
const OVERLAP: Duration = Duration::from_secs(1);

/// The subscribers of `GetContainerEvents`.
#[derive(Debug, Default)]
pub struct Events {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    subscribers: Vec<Subscriber>,
    backlog: Backlog,
    away: Vec<Away>,
    file: Option<PathBuf>,
}

/// One whose subscription has ended.
#[derive(Debug)]
struct Away {
    listener: Listener,
    /// The first event that it may have missed.
    first: u64,
    since: Instant,
}

#[derive(Debug)]
struct Subscriber {
    listener: Option<Listener>,
    queue: mpsc::Sender<Told>,
}

/// An event, or why there are no more, and the number of what comes next.
type Told = (u64, Result<ContainerEventResponse, Status>);

impl Events {
    /// How long events are kept for those who come back. Zero: not at all.
    pub fn keep(&self, time: Duration) {
        self.state.lock().backlog.keep(time);
    }

    /// Takes those for away who listened when an earlier run ended, and writes down from now on who does.
    /// Blocks.
    pub fn survive_in(&self, file: &Path) {
        let former = listener::read(file);
        let mut state = self.state.lock();
        let since = Instant::now();
        let away = former.into_iter().map(|listener| Away {
            listener,
            first: 0,
            since,
        });
        state.away = away.collect();
        state.file = Some(file.to_owned());
    }

    /// Events from now on, and before them those that this listener has missed.
    pub fn subscribe(&self, listener: Option<Listener>) -> Subscription {
        let mut state = self.state.lock();
        let place = listener
            .and_then(|listener| state.away.iter().position(|away| away.listener == listener));
        let next = state.backlog.next();
        let (first, missed) = match place {
            Some(place) => {
                let away = state.away.remove(place);
                (away.first, state.backlog.since(away.first))
            }
            None => (next, Vec::new()),
        };
        // One place more than the queue holds is kept for the farewell; what was missed has its own.
        let (queue, events) = mpsc::channel(QUEUE + 1 + missed.len());
        let last = missed.len().saturating_sub(1);
        for (at, event) in missed.into_iter().enumerate() {
            // Who leaves before it has heard all of it hears all of it again.
            let number = if at == last { next } else { first };
            let _ = queue.try_send((number, Ok(event)));
        }
        state.subscribers.push(Subscriber { listener, queue });
        Subscription {
            events,
            listener,
            next: first,
            state: Arc::clone(&self.state),
        }
    }

    /// Writes down who listens, so that the next run knows who comes back. Blocks.
    pub fn write_down(&self) {
        let (listeners, file) = {
            let state = self.state.lock();
            let here = state.subscribers.iter().filter_map(|one| one.listener);
            let away = state.away.iter().map(|away| away.listener);
            let listeners: Vec<_> = here.chain(away).take(listener::MOST).collect();
            (listeners, state.file.clone())
        };
        let Some(file) = file else { return };
        let text = listener::written(&listeners);
        let outlives = orlop_disk::Outlives::Kill;
        if let Err(error) = orlop_disk::write_file(&file, 0o600, outlives, text.as_bytes()) {
            tracing::warn!(%error, "noting who listens to events");
        }
    }

    /// Whether anybody may want to know, so that an event need not be made for nobody.
    pub fn wanted(&self) -> bool {
        let mut state = self.state.lock();
        let window = state.backlog.window();
        state.away.retain(|away| away.since.elapsed() < window);
        !state.subscribers.is_empty() || !state.away.is_empty()
    }

    /// How many listen.
    pub fn count(&self) -> usize {
        self.state.lock().subscribers.len()
    }

    /// Hands an event to every subscriber, in the order of the calls.
    pub fn publish(&self, event: &ContainerEventResponse) {
        let mut state = self.state.lock();
        let next = state.backlog.push(event) + 1;
        state.subscribers.retain(|subscriber| {
            if subscriber.queue.capacity() > 1 {
                let sent = subscriber.queue.try_send((next, Ok(event.clone())));
                return sent.is_ok();
            }
            let farewell = Status::data_loss(format!(
                "the subscriber is more than {QUEUE} events behind; subscribe again and list anew"
            ));
            let _ = subscriber.queue.try_send((next - 1, Err(farewell)));
            false
        });
    }
}

/// What happens, for one who listens, until it is dropped.
#[derive(Debug)]
pub struct Subscription {
    events: mpsc::Receiver<Told>,
    listener: Option<Listener>,
    /// The number of the first event that has not been taken.
    next: u64,
    state: Arc<Mutex<State>>,
}

impl Stream for Subscription {
    type Item = Result<ContainerEventResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.events.poll_recv(context).map(|told| {
            let (next, event) = told?;
            self.next = next;
            Some(event)
        })
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let Some(listener) = self.listener else {
            return;
        };
        let mut state = self.state.lock();
        let first = state.backlog.shortly_before(self.next, OVERLAP);
        state.away.retain(|away| away.listener != listener);
        state.away.push(Away {
            listener,
            first,
            since: Instant::now(),
        });
        if state.away.len() > listener::MOST {
            state.away.remove(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{Ready, ready};
    use std::task::{Context, Poll};

    use futures_util::{FutureExt as _, StreamExt as _};
    use orlop_cri::v1::runtime_service_client::RuntimeServiceClient;
    use orlop_cri::v1::{ContainerStatus, GetEventsRequest, PodSandboxStatus};
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
        (0..1000).for_each(|id| events.publish(&event(id)));
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
        (0..QUEUE + 10).for_each(|id| events.publish(&event(id)));
        assert!(!events.wanted());
        let mut got = 0;
        let farewell = loop {
            match stalled.next().await.unwrap() {
                Ok(event) => assert_eq!(event.container_id, got.to_string()),
                Err(status) => break status,
            }
            got += 1;
        };
        assert_eq!(got, QUEUE);
        assert_eq!(farewell.code(), tonic::Code::DataLoss);
        assert!(stalled.next().await.is_none());
    }

    /// `GetContainerEvents` of nothing but these events.
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
        const RATE: usize = 10_000;
        const SECONDS: usize = 3;
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
            // As full as one of a pod with a container is.
            let mut event = event(0);
            event.pod_sandbox_status = Some(PodSandboxStatus {
                id: "a".repeat(64),
                labels: (0..8)
                    .map(|n| (format!("label-{n}"), "value".repeat(4)))
                    .collect(),
                ..Default::default()
            });
            event.containers_statuses = vec![ContainerStatus::default()];
            for id in 0..RATE * SECONDS {
                let due = begin + std::time::Duration::from_secs_f64(id as f64 / RATE as f64);
                let early = due.saturating_duration_since(std::time::Instant::now());
                if early > std::time::Duration::from_millis(1) {
                    std::thread::sleep(early);
                }
                event.container_id = id.to_string();
                events.publish(&event);
            }
        });
        for id in 0..RATE * SECONDS {
            let event = told.message().await.unwrap().unwrap();
            assert_eq!(event.container_id, id.to_string());
        }
        let took = begin.elapsed().as_secs_f64();
        publisher.join().unwrap();
        server.abort();
        // A subscriber that did not keep up would have been cut off: see above.
        assert!(
            took < SECONDS as f64 + 1.0,
            "{took} s for {SECONDS} s of events"
        );
    }

    #[tokio::test]
    async fn who_has_left_is_forgotten() {
        let events = Events::default();
        drop(events.subscribe(None));
        events.publish(&event(1));
        assert!(!events.wanted());
    }

    /// Ours, and one that nobody is.
    fn listener() -> Listener {
        Listener::of(super::super::Caller(std::process::id())).unwrap()
    }

    fn at(id: usize, before: Duration) -> ContainerEventResponse {
        let before = i64::try_from(before.as_nanos()).unwrap();
        ContainerEventResponse {
            created_at: crate::clock::now() - before,
            ..event(id)
        }
    }

    /// What is there to be taken without waiting.
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
        events.publish(&at(0, long_ago));
        let mut first = events.subscribe(Some(listener()));
        events.publish(&at(1, long_ago));
        assert_eq!(taken(&mut first), ["1"], "nothing old for a new one");
        events.publish(&at(2, long_ago));
        drop(first);
        events.publish(&at(3, Duration::ZERO));
        assert_eq!(taken(&mut events.subscribe(None)), [""; 0]);
        let mut again = events.subscribe(Some(listener()));
        events.publish(&at(4, Duration::ZERO));
        assert_eq!(taken(&mut again), ["2", "3", "4"]);
        drop(again);
        drop(events.subscribe(Some(listener())));
        let mut third = events.subscribe(Some(listener()));
        // What was told within a second may have been on its way.
        assert_eq!(taken(&mut third), ["3", "4"]);
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
        after.publish(&at(1, Duration::from_secs(10)));
        assert_eq!(taken(&mut after.subscribe(Some(listener()))), ["1"]);
    }
}
