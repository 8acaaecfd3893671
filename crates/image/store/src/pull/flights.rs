//! Pulls in flight. Identical requests share one pull, and a pull survives its caller for a while. It is cancelled if
//! no client waits for it for too long.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::progress::{PullProgress, Tracker};
use super::steps::PullStep;
use crate::admission::Request;
use crate::{Digest, Error, Result};

type Outcome = watch::Receiver<Option<Result<Digest>>>;

/// The pulls in flight and their tasks.
pub(crate) struct Flights {
    flights: Arc<Mutex<HashMap<Request, Flight>>>,
    tasks: TaskTracker,
    cancel: CancellationToken,
    /// Time that a pull continues without a waiting client.
    alone: Mutex<Duration>,
}

#[derive(Clone)]
struct Flight {
    outcome: Outcome,
    tracker: Arc<Tracker>,
    waiters: Arc<watch::Sender<usize>>,
}

impl Flights {
    pub(crate) fn new(alone: Duration) -> Self {
        Self {
            flights: Arc::default(),
            tasks: TaskTracker::new(),
            cancel: CancellationToken::new(),
            alone: Mutex::new(alone),
        }
    }

    /// Sets the time that new pulls continue without a waiting client.
    pub(crate) fn set_alone(&self, alone: Duration) {
        *self.alone.lock() = alone;
    }

    /// Joins the pull of an identical request, or starts one, and returns its result and steps. Dropping the returned
    /// future or completing `left` only removes the caller from the waiting clients.
    pub(crate) async fn join<F>(
        &self,
        request: Request,
        left: impl Future<Output = ()>,
        start: impl FnOnce(Request, Arc<Tracker>) -> F,
    ) -> (Result<Digest>, Vec<PullStep>)
    where
        F: Future<Output = Result<Digest>> + Send + 'static,
    {
        let name = request.reference.to_string();
        let (flight, waiter) = self.enter(request, start);
        let mut outcome = flight.outcome;
        let mut ended = pin!(async {
            let ended = outcome.wait_for(Option::is_some).await;
            ended.ok().and_then(|outcome| outcome.clone())
        });
        let outcome = tokio::select! {
            outcome = &mut ended => outcome,
            () = left => {
                drop(waiter);
                ended.await
            }
        };
        let outcome = outcome.unwrap_or_else(|| Err(Error::Cancelled(format!("pulling {name}"))));
        (outcome, flight.tracker.steps.so_far())
    }

    fn enter<F>(
        &self,
        request: Request,
        start: impl FnOnce(Request, Arc<Tracker>) -> F,
    ) -> (Flight, Waiter)
    where
        F: Future<Output = Result<Digest>> + Send + 'static,
    {
        let mut flights = self.flights.lock();
        if let Some(flight) = flights.get(&request) {
            return (flight.clone(), Waiter::of(flight));
        }
        let tracker = Arc::new(Tracker::new(request.reference.to_string()));
        let (sender, outcome) = watch::channel(None);
        let flight = Flight {
            outcome,
            tracker: Arc::clone(&tracker),
            waiters: Arc::new(watch::Sender::new(0)),
        };
        let waiter = Waiter::of(&flight);
        let patience = *self.alone.lock();
        let alone = left_alone(flight.waiters.subscribe(), patience);
        let given_up = Error::Cancelled(format!(
            "pulling {}, which had no waiting client for {patience:?} (images.abandon_after),",
            request.reference
        ));
        flights.insert(request.clone(), flight.clone());
        drop(flights);
        let leave = Leave {
            flights: Arc::clone(&self.flights),
            request: request.clone(),
        };
        let work = self
            .cancel
            .clone()
            .run_until_cancelled_owned(start(request, tracker));
        self.tasks.spawn(async move {
            let done = tokio::select! {
                done = work => done,
                () = alone => Some(Err(given_up)),
            };
            // From here on, an identical request starts a new pull.
            drop(leave);
            if let Some(done) = done {
                sender.send_replace(Some(done));
            }
        });
        (flight, waiter)
    }

    /// Returns the progress of each pull.
    pub(crate) fn progress(&self) -> Vec<PullProgress> {
        self.flights
            .lock()
            .values()
            .map(|flight| flight.tracker.snapshot())
            .collect()
    }

    /// Cancels all pulls and waits until they have ended.
    pub(crate) async fn close(&self) {
        self.cancel.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// A client that waits for a pull, until it is dropped.
struct Waiter(Arc<watch::Sender<usize>>);

impl Waiter {
    fn of(flight: &Flight) -> Self {
        flight.waiters.send_modify(|waiters| *waiters += 1);
        Self(Arc::clone(&flight.waiters))
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.0.send_modify(|waiters| *waiters -= 1);
    }
}

/// Completes when no client has waited for `patience`.
async fn left_alone(mut waiters: watch::Receiver<usize>, patience: Duration) {
    loop {
        let nobody = async { waiters.wait_for(|count| *count == 0).await.is_ok() };
        if !nobody.await {
            // The pull is over, and this future is about to be dropped.
            return std::future::pending().await;
        }
        let somebody = async { waiters.wait_for(|count| *count > 0).await.is_ok() };
        tokio::select! {
            () = tokio::time::sleep(patience) => return,
            _ = somebody => {}
        }
    }
}

/// Guard that removes a pull from the list, even after a panic.
struct Leave {
    flights: Arc<Mutex<HashMap<Request, Flight>>>,
    request: Request,
}

impl Drop for Leave {
    fn drop(&mut self) {
        self.flights.lock().remove(&self.request);
    }
}
