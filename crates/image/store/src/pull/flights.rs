//! Pulls in flight: identical ones join, and none ends at once because its caller does. One that
//! nobody has waited for in a while ends.

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
    /// How long a pull goes on without anybody waiting for it.
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

    /// How long those that begin from now on go on alone.
    pub(crate) fn set_alone(&self, alone: Duration) {
        *self.alone.lock() = alone;
    }

    /// Joins the pull that does this request already, or starts it, and tells of its steps.
    /// Dropping the returned future doesn't end the pull, but counts as leaving it, as `left` does.
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
            // From here on, the same request starts anew.
            drop(leave);
            if let Some(done) = done {
                sender.send_replace(Some(done));
            }
        });
        (flight, waiter)
    }

    /// How far each pull is.
    pub(crate) fn progress(&self) -> Vec<PullProgress> {
        self.flights
            .lock()
            .values()
            .map(|flight| flight.tracker.snapshot())
            .collect()
    }

    /// Ends all pulls and waits until they are gone.
    pub(crate) async fn close(&self) {
        self.cancel.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// Somebody who waits for a pull, until it is dropped.
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

/// Is done when nobody has waited for so long.
async fn left_alone(mut waiters: watch::Receiver<usize>, patience: Duration) {
    loop {
        let nobody = async { waiters.wait_for(|count| *count == 0).await.is_ok() };
        if !nobody.await {
            // The pull is over; whoever asks here is about to be dropped.
            return std::future::pending().await;
        }
        let somebody = async { waiters.wait_for(|count| *count > 0).await.is_ok() };
        tokio::select! {
            () = tokio::time::sleep(patience) => return,
            _ = somebody => {}
        }
    }
}

/// Takes a pull off the list, even if it panics.
struct Leave {
    flights: Arc<Mutex<HashMap<Request, Flight>>>,
    request: Request,
}

impl Drop for Leave {
    fn drop(&mut self) {
        self.flights.lock().remove(&self.request);
    }
}
