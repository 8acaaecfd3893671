//! Limits of concurrent calls and streams.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;

/// Limits of running calls and of open streams. A stream counts as a call only until it opens, so streams that last for
/// days do not block calls.
#[derive(Debug)]
pub(super) struct Limits {
    calls: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    max_calls: usize,
    waiting: AtomicUsize,
}

impl Limits {
    pub(super) fn new(max_calls: usize, max_streams: usize) -> Self {
        Self {
            calls: Arc::new(Semaphore::new(max_calls)),
            streams: Arc::new(Semaphore::new(max_streams)),
            max_calls,
            waiting: AtomicUsize::new(0),
        }
    }

    /// Waits for a permit for one more call. The queue is as long as the limit of running calls; further calls are
    /// refused.
    pub(super) async fn admit(&self) -> Result<OwnedSemaphorePermit, Status> {
        if let Ok(permit) = Arc::clone(&self.calls).try_acquire_owned() {
            return Ok(permit);
        }
        let place = Place::take(&self.waiting);
        if place.number >= self.max_calls {
            return Err(Status::resource_exhausted(format!(
                "{} calls are running and the queue is full (grpc.max_calls); try again later",
                self.max_calls,
            )));
        }
        Arc::clone(&self.calls)
            .acquire_owned()
            .await
            .map_err(|_| Status::unavailable("the daemon is stopping"))
    }

    /// Takes a permit for one more stream, if one is free.
    pub(super) fn open_stream(&self) -> Result<OwnedSemaphorePermit, Status> {
        Arc::clone(&self.streams)
            .try_acquire_owned()
            .map_err(|_| Status::resource_exhausted("too many streams are open (grpc.max_streams)"))
    }
}

/// A position in the queue, released however the wait ends.
struct Place<'a> {
    waiting: &'a AtomicUsize,
    number: usize,
}

impl<'a> Place<'a> {
    fn take(waiting: &'a AtomicUsize) -> Self {
        Self {
            waiting,
            number: waiting.fetch_add(1, Ordering::Relaxed),
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt;
    use tokio::time::timeout;
    use tonic::Code;

    use super::*;

    #[tokio::test]
    async fn one_call_works_one_waits_and_the_third_is_sent_away() {
        let limits = Limits::new(1, 1);
        let working = limits.admit().await.unwrap();
        let mut waiting = Box::pin(limits.admit());
        assert!(waiting.as_mut().now_or_never().is_none());
        assert_eq!(
            limits.admit().await.unwrap_err().code(),
            Code::ResourceExhausted
        );
        drop(working);
        let admitted = timeout(Duration::from_secs(5), waiting).await.unwrap();
        assert!(admitted.is_ok());
    }

    #[tokio::test]
    async fn a_client_that_stops_waiting_leaves_its_place() {
        let limits = Limits::new(1, 1);
        let _working = limits.admit().await.unwrap();
        let mut waiting = Box::pin(limits.admit());
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(waiting);
        assert!(
            limits.admit().now_or_never().is_none(),
            "there is room in the queue again"
        );
    }
}
