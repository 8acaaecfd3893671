//! Pulls in flight: identical ones join, and none ends because its caller does.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::progress::{PullProgress, Tracker};
use super::steps::PullStep;
use super::task::Request;
use crate::{Digest, Error, Result};

type Outcome = watch::Receiver<Option<Result<Digest>>>;

/// The pulls in flight and their tasks.
#[derive(Default)]
pub(crate) struct Flights {
    flights: Arc<Mutex<HashMap<Request, Flight>>>,
    tasks: TaskTracker,
    cancel: CancellationToken,
}

#[derive(Clone)]
struct Flight {
    outcome: Outcome,
    tracker: Arc<Tracker>,
}

impl Flights {
    /// Joins the pull that does this request already, or starts it, and tells of its steps.
    /// Dropping the returned future doesn't end the pull.
    pub(crate) async fn join<F>(
        &self,
        request: Request,
        start: impl FnOnce(Request, Arc<Tracker>) -> F,
    ) -> (Result<Digest>, Vec<PullStep>)
    where
        F: Future<Output = Result<Digest>> + Send + 'static,
    {
        let name = request.reference.to_string();
        let mut flight = self.enter(request, start);
        let outcome = flight
            .outcome
            .wait_for(Option::is_some)
            .await
            .map(|outcome| outcome.clone());
        let outcome = outcome
            .ok()
            .flatten()
            .unwrap_or_else(|| Err(Error::Cancelled(format!("pulling {name}"))));
        (outcome, flight.tracker.steps.so_far())
    }

    fn enter<F>(&self, request: Request, start: impl FnOnce(Request, Arc<Tracker>) -> F) -> Flight
    where
        F: Future<Output = Result<Digest>> + Send + 'static,
    {
        let mut flights = lock(&self.flights);
        if let Some(flight) = flights.get(&request) {
            return flight.clone();
        }
        let tracker = Arc::new(Tracker::new(request.reference.to_string()));
        let (sender, outcome) = watch::channel(None);
        let flight = Flight {
            outcome,
            tracker: Arc::clone(&tracker),
        };
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
            let done = work.await;
            // From here on, the same request starts anew.
            drop(leave);
            if let Some(done) = done {
                sender.send_replace(Some(done));
            }
        });
        flight
    }

    /// How far each pull is.
    pub(crate) fn progress(&self) -> Vec<PullProgress> {
        lock(&self.flights)
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

/// Takes a pull off the list, even if it panics.
struct Leave {
    flights: Arc<Mutex<HashMap<Request, Flight>>>,
    request: Request,
}

impl Drop for Leave {
    fn drop(&mut self) {
        lock(&self.flights).remove(&self.request);
    }
}

fn lock(flights: &Mutex<HashMap<Request, Flight>>) -> MutexGuard<'_, HashMap<Request, Flight>> {
    flights.lock().unwrap_or_else(PoisonError::into_inner)
}
