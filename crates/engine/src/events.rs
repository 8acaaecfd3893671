//! What happened to pods and containers, for everybody who listens.
//!
//! A subscriber has a bounded queue. One that reads too slowly loses its subscription with
//! a clear status: it can subscribe and list anew, but it never misses an event unawares.

use std::sync::{Mutex, PoisonError};

use orlop_cri::v1::ContainerEventResponse;
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

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Subscriber>> {
        self.subscribers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
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

    #[tokio::test]
    async fn who_has_left_is_forgotten() {
        let events = Events::default();
        drop(events.subscribe());
        events.publish(&event(1));
        assert!(!events.wanted());
    }
}
