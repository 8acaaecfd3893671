//! What happened to pods and containers, for everybody who listens.
//!
//! A subscriber has a bounded queue. One that reads too slowly loses its subscription with
//! a clear status: it can subscribe and list anew, but it never misses an event unawares.

use orlop_cri::v1::ContainerEventResponse;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tonic::Status;

/// Events that a subscriber may lag behind.
const QUEUE: usize = 4096;

/// The subscribers of `GetContainerEvents`.
#[derive(Debug, Default)]
pub struct Events {
    subscribers: Mutex<Vec<Subscriber>>,
}

#[derive(Debug)]
struct Subscriber {
    queue: mpsc::Sender<Result<ContainerEventResponse, Status>>,
}

impl Events {
    /// Events from now on.
    pub fn subscribe(&self) -> mpsc::Receiver<Result<ContainerEventResponse, Status>> {
        // One place more than the queue holds is kept for the farewell.
        let (queue, events) = mpsc::channel(QUEUE + 1);
        self.lock().push(Subscriber { queue });
        events
    }

    /// Whether anybody listens, so that an event need not be made for nobody.
    pub fn wanted(&self) -> bool {
        !self.lock().is_empty()
    }

    /// How many listen.
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    /// Hands an event to every subscriber, in the order of the calls.
    pub fn publish(&self, event: &ContainerEventResponse) {
        self.lock().retain(|subscriber| {
            if subscriber.queue.capacity() > 1 {
                return subscriber.queue.try_send(Ok(event.clone())).is_ok();
            }
            let farewell = Status::data_loss(format!(
                "the subscriber is more than {QUEUE} events behind; subscribe again and list anew"
            ));
            let _ = subscriber.queue.try_send(Err(farewell));
            false
        });
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, Vec<Subscriber>> {
        self.subscribers.lock()
    }
}

#[cfg(test)]
mod tests {
    use std::future::{Ready, ready};
    use std::task::{Context, Poll};

    use orlop_cri::v1::runtime_service_client::RuntimeServiceClient;
    use orlop_cri::v1::{ContainerStatus, GetEventsRequest, PodSandboxStatus};
    use tokio_stream::wrappers::ReceiverStream;
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
        let mut queue = events.subscribe();
        (0..1000).for_each(|id| events.publish(&event(id)));
        for id in 0..1000 {
            assert_eq!(
                queue.recv().await.unwrap().unwrap().container_id,
                id.to_string()
            );
        }
    }

    #[tokio::test]
    async fn a_stalled_subscriber_is_told_and_let_go() {
        let events = Events::default();
        let mut stalled = events.subscribe();
        (0..QUEUE + 10).for_each(|id| events.publish(&event(id)));
        assert!(!events.wanted());
        let mut got = 0;
        let farewell = loop {
            match stalled.recv().await.unwrap() {
                Ok(event) => assert_eq!(event.container_id, got.to_string()),
                Err(status) => break status,
            }
            got += 1;
        };
        assert_eq!(got, QUEUE);
        assert_eq!(farewell.code(), tonic::Code::DataLoss);
        assert!(stalled.recv().await.is_none());
    }

    /// `GetContainerEvents` of nothing but these events.
    #[derive(Clone)]
    struct Told(std::sync::Arc<Events>);

    impl tonic::server::NamedService for Told {
        const NAME: &'static str = "runtime.v1.RuntimeService";
    }

    impl tonic::server::ServerStreamingService<GetEventsRequest> for Told {
        type Response = ContainerEventResponse;
        type ResponseStream = ReceiverStream<Result<ContainerEventResponse, Status>>;
        type Future = Ready<Result<tonic::Response<Self::ResponseStream>, Status>>;

        fn call(&mut self, _: tonic::Request<GetEventsRequest>) -> Self::Future {
            let events = ReceiverStream::new(self.0.subscribe());
            ready(Ok(tonic::Response::new(events)))
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
        drop(events.subscribe());
        events.publish(&event(1));
        assert!(!events.wanted());
    }
}
