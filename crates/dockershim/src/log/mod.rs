//! Log files of containers. The engine keeps its own log, and a follower copies it to a file in the CRI's format,
//! which the kubelet can rotate. `docker logs` still works.
//!
//! Both the engine's log and the file have the time of every line. A restarted follower continues after the last line
//! of the file. No line is lost or duplicated when either side restarts.

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

/// The log followers by container.
pub(crate) struct Logs {
    engine: Engine,
    readers: Mutex<HashMap<String, Reader>>,
    /// Containers whose follower is about to start.
    expected: Arc<Mutex<HashSet<String>>>,
}

/// Announces a follower for a container's log until it is dropped.
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
    /// Whether the follower is still running. A finished one does not count: the container may start again.
    fn goes_on(&self) -> bool {
        !*self.done.borrow()
    }
}

/// How long a follower may take to finish after its container's end, unless the engine or the disk has a problem.
const SETTLING: Duration = Duration::from_secs(2);
/// How long a follower may take to handle a request; it does so between two writes.
const HEARING: Duration = Duration::from_secs(10);

impl Logs {
    /// Creates the registry; lines are split at `longest` bytes.
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

    /// Marks the container's log as followed until the returned guard is dropped. Only [`Logs::follow`] ignores the
    /// mark.
    pub(crate) fn expect(&self, id: &str) -> Expected {
        self.expected.lock().insert(id.to_owned());
        Expected {
            id: id.to_owned(),
            all: Arc::clone(&self.expected),
        }
    }

    /// Starts a follower unless one runs. The file exists when this returns.
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

    /// Whether a follower runs or is about to start.
    pub(crate) fn is_followed(&self, id: &str) -> bool {
        self.expected.lock().contains(id) || self.has_reader(id)
    }

    fn has_reader(&self, id: &str) -> bool {
        self.lock().get(id).is_some_and(Reader::goes_on)
    }

    /// Waits until the whole log of a container that has ended is in its file.
    pub(crate) async fn settle(&self, id: &str) {
        let done = self.lock().get(id).map(|reader| reader.done.clone());
        if let Some(mut done) = done {
            let _ = timeout(SETTLING, done.wait_for(|done| *done)).await;
        }
    }

    /// Reopens a container's log file. `false` if no follower runs.
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
            // The follower has just finished.
            Ok(Err(_)) => Ok(false),
            Err(_) => Err(Error::Timeout(format!(
                "cannot reopen the log of container {id} within {HEARING:?}; check that its disk is not full"
            ))
            .into()),
        }
    }

    /// Drops the follower of a container's log.
    pub(crate) fn forget(&self, id: &str) {
        self.lock().remove(id);
    }

    /// Returns the containers whose logs are followed.
    pub(crate) fn ids(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }

    /// Stops all followers.
    pub(crate) async fn stop(&self) {
        let readers: Vec<Reader> = self.lock().drain().map(|(_, reader)| reader).collect();
        // A line that is being written is completed.
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
