//! Containers' logs: the engine keeps its own, and a reader here writes each of them on into a
//! file of the CRI's format, where the kubelet can rotate it. `docker logs` goes on to work.
//!
//! The engine's log has the time of every line, and so has the file: a reader that starts anew
//! goes on after the last line that the file has. Nothing is lost or written twice over a
//! restart of either side.

mod cursor;
mod file;
mod follower;
mod lines;
mod source;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use self::follower::{Engine, Follower, Wish};
pub(crate) use self::source::{From, Source};
use crate::docker::Docker;
use crate::engine_return::EngineReturn;
use crate::error::{Error, Result};

/// The readers, by container.
pub(crate) struct Logs {
    engine: Engine,
    readers: Mutex<HashMap<String, Reader>>,
    /// Containers whose reader is about to begin.
    expected: Arc<Mutex<HashSet<String>>>,
}

/// Somebody is about to read a container's log.
pub(crate) struct Expected {
    id: String,
    all: Arc<Mutex<HashSet<String>>>,
}

impl Drop for Expected {
    fn drop(&mut self) {
        self.all.lock().remove(&self.id);
    }
}

struct Reader {
    wishes: mpsc::Sender<Wish>,
    done: watch::Receiver<bool>,
    _task: AbortOnDropHandle<()>,
}

impl Reader {
    /// One that has come to its end does not count: the container may run again.
    fn goes_on(&self) -> bool {
        !*self.done.borrow()
    }
}

/// A reader is done within this time of its container's end, unless the engine or the disk is
/// in trouble.
const SETTLING: Duration = Duration::from_secs(2);
/// A reader takes a wish between two writes.
const HEARING: Duration = Duration::from_secs(10);

impl Logs {
    /// Lines are split at `longest` bytes.
    pub(crate) fn new(docker: Arc<Docker>, back: EngineReturn, longest: usize) -> Self {
        Self {
            engine: Engine {
                docker,
                back,
                longest,
            },
            readers: Mutex::default(),
            expected: Arc::default(),
        }
    }

    /// Until the answer is dropped, the container's log counts as read by somebody for all but
    /// [`Logs::follow`].
    pub(crate) fn expect(&self, id: &str) -> Expected {
        self.expected.lock().insert(id.to_owned());
        Expected {
            id: id.to_owned(),
            all: Arc::clone(&self.expected),
        }
    }

    /// Begins to read, unless somebody does. The file is there when this returns.
    pub(crate) async fn follow(&self, source: Source, from: From) -> Result<()> {
        if self.has_reader(&source.id) {
            return Ok(());
        }
        let id = source.id.clone();
        let doing = format!("creating the log {}", source.path.display());
        let opened = Follower::open(&self.engine, source, from).await;
        let follower = opened.map_err(Error::io(doing))?;
        let (wishes, heard) = mpsc::channel(8);
        let (tell, done) = watch::channel(false);
        let mut all = self.lock();
        if all.get(&id).is_some_and(Reader::goes_on) {
            return Ok(());
        }
        let task = tokio::spawn(async move {
            follower.run(heard).await;
            tell.send_replace(true);
        });
        let reader = Reader {
            wishes,
            done,
            _task: AbortOnDropHandle::new(task),
        };
        all.insert(id, reader);
        Ok(())
    }

    /// Whether somebody reads it, or is about to.
    pub(crate) fn is_followed(&self, id: &str) -> bool {
        self.expected.lock().contains(id) || self.has_reader(id)
    }

    fn has_reader(&self, id: &str) -> bool {
        self.lock().get(id).is_some_and(Reader::goes_on)
    }

    /// Waits until all that a container that has ended wrote is in its file.
    pub(crate) async fn settle(&self, id: &str) {
        let done = self.lock().get(id).map(|reader| reader.done.clone());
        if let Some(mut done) = done {
            let _ = timeout(SETTLING, done.wait_for(|done| *done)).await;
        }
    }

    /// Has a log written to a new file of the same name. `false` if nobody reads it.
    pub(crate) async fn reopen(&self, id: &str) -> Result<bool> {
        let found = self.lock().get(id).map(|reader| reader.wishes.clone());
        let Some(wishes) = found else {
            return Ok(false);
        };
        let (tell, heard) = oneshot::channel();
        if wishes.send(Wish::Reopen(tell)).await.is_err() {
            return Ok(false);
        }
        match timeout(HEARING, heard).await {
            Ok(Ok(done)) => {
                done.map_err(Error::io(format!("reopening the log of container {id}")))?;
                Ok(true)
            }
            // It came to its end just now.
            Ok(Err(_)) => Ok(false),
            Err(_) => Err(Error::Timeout(format!(
                "cannot reopen the log of container {id} within {HEARING:?}; check that its disk is not full"
            ))
            .into()),
        }
    }

    /// Lets go of a container's log.
    pub(crate) fn forget(&self, id: &str) {
        self.lock().remove(id);
    }

    /// The containers whose log is read.
    pub(crate) fn ids(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }

    /// Lets go of all of them.
    pub(crate) async fn stop(&self) {
        let readers: Vec<Reader> = self.lock().drain().map(|(_, reader)| reader).collect();
        // A line that is being written is written whole.
        for reader in &readers {
            let _ = reader.wishes.try_send(Wish::Stop);
        }
        for mut reader in readers {
            let _ = timeout(
                Duration::from_millis(500),
                reader.done.wait_for(|done| *done),
            )
            .await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Reader>> {
        self.readers.lock()
    }
}
