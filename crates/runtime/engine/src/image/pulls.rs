//! Pulls that clients requested, from the request to the result. The image store knows their progress; this
//! module keeps the requests, the start time and the result.

use std::collections::BTreeMap;
use std::sync::Arc;

use orlop_cri_api::images::{PullProgress, PullStage};
use orlop_image_store::{Image, Reference};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{broadcast, watch};

use crate::clock;
use crate::error::{Error, Result, chain};

/// Number of pull results that a watcher may lag behind.
const QUEUE: usize = 64;

/// The pulls in progress.
#[derive(Debug)]
pub struct Pulls {
    state: Mutex<State>,
    begun: watch::Sender<()>,
    ended: broadcast::Sender<Ended>,
}

#[derive(Debug, Default)]
struct State {
    last_id: u64,
    /// Pulls in progress by the image's full name.
    under_way: BTreeMap<String, UnderWay>,
}

/// A pull in progress. Pulls of one image with several credentials count as one.
#[derive(Debug, Clone)]
pub struct UnderWay {
    /// A number that is unique while the daemon runs.
    pub id: u64,
    /// The image, as the first request named it.
    pub image: String,
    /// Nanoseconds since the epoch.
    pub started_at: i64,
    /// Requests that wait for it.
    pub waiters: u32,
    /// Requests that began or joined it, including those whose client has left.
    works: usize,
}

/// The result of a pull.
#[derive(Debug, Clone)]
pub struct Ended {
    /// The image's full name.
    pub name: String,
    /// The last state of the pull, without its layers.
    pub progress: PullProgress,
}

impl Default for Pulls {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            begun: watch::Sender::new(()),
            ended: broadcast::Sender::new(QUEUE),
        }
    }
}

impl Pulls {
    /// Registers a pull, or one more request that joins it.
    pub fn begin(self: &Arc<Self>, image: &str) -> (Work, Waiter) {
        let name = full_name(image);
        let mut state = self.lock();
        let id = state.last_id + 1;
        let under_way = state
            .under_way
            .entry(name.clone())
            .or_insert_with(|| UnderWay {
                id,
                image: image.to_owned(),
                started_at: clock::now(),
                waiters: 0,
                works: 0,
            });
        under_way.waiters += 1;
        under_way.works += 1;
        let taken = under_way.id;
        state.last_id = state.last_id.max(taken);
        drop(state);
        self.begun.send_replace(());
        let work = Work {
            pulls: Arc::clone(self),
            name: name.clone(),
            outcome: Err(format!("the pull of {image:?} was interrupted")),
        };
        let waiter = Waiter {
            pulls: Arc::clone(self),
            name,
            id: taken,
        };
        (work, waiter)
    }

    /// Returns the pulls in progress, by the full name of their image.
    pub fn under_way(&self) -> BTreeMap<String, UnderWay> {
        self.lock().under_way.clone()
    }

    /// Returns a receiver that is notified when a pull begins.
    pub fn begun(&self) -> watch::Receiver<()> {
        self.begun.subscribe()
    }

    /// Returns a receiver of pull results. A pull that is reported here is no longer in progress.
    pub fn ended(&self) -> broadcast::Receiver<Ended> {
        self.ended.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

/// Returns the full name of an image, by which the image store knows its pull.
pub fn full_name(image: &str) -> String {
    match image.parse::<Reference>() {
        Ok(reference) => reference.to_string(),
        Err(_) => image.to_owned(),
    }
}

/// The work of a request; it continues if the client leaves.
#[derive(Debug)]
pub struct Work {
    pulls: Arc<Pulls>,
    name: String,
    /// The image's id, or the error.
    outcome: Result<String, String>,
}

impl Work {
    /// Stores the result.
    pub fn end(mut self, outcome: &Result<Image, Error>) {
        self.outcome = match outcome {
            Ok(image) => Ok(image.id.to_string()),
            Err(error) => Err(chain(error)),
        };
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let mut state = self.pulls.lock();
        let Some(mut last) = state.under_way.remove(&self.name) else {
            return;
        };
        last.works -= 1;
        if last.works > 0 {
            state.under_way.insert(self.name.clone(), last);
            return;
        }
        let outcome = std::mem::replace(&mut self.outcome, Ok(String::new()));
        let (stage, image_ref, error) = match outcome {
            Ok(id) => (PullStage::Done, id, String::new()),
            Err(reason) => (PullStage::Failed, String::new(), reason),
        };
        // There may be no watcher. The lock is held, so that an end is reported after its pull is off the list and
        // before the next of that name is on it.
        let _ = self.pulls.ended.send(Ended {
            name: self.name.clone(),
            progress: PullProgress {
                id: last.id,
                image: last.image,
                stage: stage.into(),
                started_at: last.started_at,
                error,
                image_ref,
                waiters: last.waiters,
                ..Default::default()
            },
        });
    }
}

/// A request that waits for a pull.
#[derive(Debug)]
pub struct Waiter {
    pulls: Arc<Pulls>,
    name: String,
    id: u64,
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut state = self.pulls.lock();
        let under_way = state.under_way.get_mut(&self.name);
        if let Some(under_way) = under_way.filter(|under_way| under_way.id == self.id) {
            under_way.waiters -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_for_one_image_are_one_pull() {
        let pulls = Arc::new(Pulls::default());
        let mut ended = pulls.ended();
        let (first, waiter) = pulls.begin("busybox");
        let (second, _waiter) = pulls.begin("docker.io/library/busybox:latest");
        let (_other, _) = pulls.begin("elsewhere.test/busybox");
        assert_eq!(pulls.under_way().len(), 2);
        let one = &pulls.under_way()["docker.io/library/busybox:latest"];
        assert_eq!((one.waiters, one.image.as_str()), (2, "busybox"));
        let id = one.id;
        drop(waiter);
        assert_eq!(
            pulls.under_way()["docker.io/library/busybox:latest"].waiters,
            1
        );
        drop(first);
        assert!(ended.try_recv().is_err(), "the second request is at work");
        second.end(&Err(Error::Timeout("too slow".into())));
        let end = ended.try_recv().unwrap().progress;
        assert_eq!((end.id, end.stage()), (id, PullStage::Failed));
        assert_eq!(end.error, "too slow");
        assert_eq!(pulls.under_way().len(), 1);
        let (_again, _waiter) = pulls.begin("busybox");
        assert_ne!(pulls.under_way()["docker.io/library/busybox:latest"].id, id);
    }
}
