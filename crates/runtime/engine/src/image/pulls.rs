//! The pulls that clients asked for, from the request to the outcome. How far each is, the
//! image store knows; who asked, since when and how it ended is kept here.

use std::collections::BTreeMap;
use std::sync::Arc;

use orlop_cri_api::images::{PullProgress, PullStage};
use orlop_image_store::{Image, Reference};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{broadcast, watch};

use crate::clock;
use crate::error::{Error, Result, chain};

/// Ends that a watcher may lag behind.
const QUEUE: usize = 64;

/// The pulls under way.
#[derive(Debug)]
pub struct Pulls {
    state: Mutex<State>,
    begun: watch::Sender<()>,
    ended: broadcast::Sender<Ended>,
}

#[derive(Debug, Default)]
struct State {
    last_id: u64,
    /// By the image's full name.
    under_way: BTreeMap<String, UnderWay>,
}

/// A pull under way. Pulls of one image with several credentials count as one.
#[derive(Debug, Clone)]
pub struct UnderWay {
    /// Tells pulls apart while the daemon runs.
    pub id: u64,
    /// The image, as it was asked for first.
    pub image: String,
    /// Nanoseconds since the epoch.
    pub started_at: i64,
    /// Requests that wait for it.
    pub waiters: u32,
    /// Requests that began or joined it, those included that nobody waits for any more.
    works: usize,
}

/// How a pull ended.
#[derive(Debug, Clone)]
pub struct Ended {
    /// The image's full name.
    pub name: String,
    /// Its last state, without its layers.
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
    /// Notes that a pull begins, or that one more request joins it.
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

    /// The pulls under way, by the full name of their image.
    pub fn under_way(&self) -> BTreeMap<String, UnderWay> {
        self.lock().under_way.clone()
    }

    /// Tells when a pull begins.
    pub fn begun(&self) -> watch::Receiver<()> {
        self.begun.subscribe()
    }

    /// Tells how pulls end. A pull that is told of here is under way no more.
    pub fn ended(&self) -> broadcast::Receiver<Ended> {
        self.ended.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

/// The full name of an image, by which the image store knows its pull.
pub fn full_name(image: &str) -> String {
    match image.parse::<Reference>() {
        Ok(reference) => reference.to_string(),
        Err(_) => image.to_owned(),
    }
}

/// The work of a request; it goes on when the client leaves.
#[derive(Debug)]
pub struct Work {
    pulls: Arc<Pulls>,
    name: String,
    /// The image's id, or why there is none.
    outcome: Result<String, String>,
}

impl Work {
    /// Notes how it ended.
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
        // Nobody may be watching. With the lock held, so that an end is told after its pull is
        // off the list and before the next of that name is on it.
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
