//! Makes unpacked layers durable and visible, several with one sync.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags, RenameFlags, fsync, open, renameat_with, syncfs};
use rustix::io::Errno;
use tokio::sync::oneshot;

use super::index::Index;
use super::layout::{Layout, RECORD};
use super::{LayerRecord, Scratch};
use crate::{Error, Result};

/// Number of layers that may wait for the next sync.
const QUEUE: usize = 64;

type Reply = oneshot::Sender<Result<()>>;
type Job = (Scratch, LayerRecord, Reply);

/// A thread that publishes layers: sync the file system, rename, sync the directory, write the index. Layers that
/// finish during a sync wait for the next one.
pub(super) struct Publisher {
    jobs: Mutex<Option<mpsc::SyncSender<Job>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Publisher {
    /// Starts the thread. It sets `strays` if a layer may be stored without a record.
    pub(super) fn start(
        layout: Layout,
        index: Arc<Index>,
        moves: Arc<Mutex<()>>,
        strays: Arc<AtomicBool>,
    ) -> Result<Self> {
        let (sender, receiver) = mpsc::sync_channel::<Job>(QUEUE);
        let dir = open_dir(&layout.layers())?;
        let thread = std::thread::Builder::new()
            .name("publish".to_owned())
            .spawn(move || {
                while let Ok(first) = receiver.recv() {
                    let mut batch = vec![first];
                    batch.extend(receiver.try_iter());
                    publish(&layout, &dir, &index, &moves, &strays, batch);
                }
            })
            .map_err(|error| Error::io("starting the thread that stores layers", error))?;
        Ok(Self {
            jobs: Mutex::new(Some(sender)),
            thread: Mutex::new(Some(thread)),
        })
    }

    pub(super) async fn publish(&self, scratch: Scratch, record: LayerRecord) -> Result<()> {
        let gone = || Error::Cancelled("publishing a layer".to_owned());
        let (reply, done) = oneshot::channel();
        let jobs = self.jobs.lock().clone().ok_or_else(gone)?;
        let mut job = (scratch, record, reply);
        loop {
            match jobs.try_send(job) {
                Ok(()) => break,
                Err(mpsc::TrySendError::Full(back)) => job = back,
                Err(mpsc::TrySendError::Disconnected(_)) => return Err(gone()),
            }
            // The queue is full because the disk is slower than the pulls.
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        done.await.map_err(|_| gone())?
    }

    pub(super) fn stop(&self) {
        drop(self.jobs.lock().take());
        if let Some(thread) = self.thread.lock().take() {
            // A panic of the thread has already failed its callers.
            let _ = thread.join();
        }
    }
}

fn publish(
    layout: &Layout,
    dir: &OwnedFd,
    index: &Index,
    moves: &Mutex<()>,
    strays: &AtomicBool,
    batch: Vec<Job>,
) {
    let written: Vec<(Job, Result<()>)> = batch
        .into_iter()
        .map(|job| {
            let written = write_record(job.0.path(), &job.1);
            (job, written)
        })
        .collect();
    let synced = syncfs(dir).map_err(|error| Error::io("syncing layers to disk", error.into()));
    let _moves = moves.lock();
    let mut moved = Vec::with_capacity(written.len());
    for ((scratch, record, reply), written) in written {
        if reply.is_closed() {
            // Its pull has failed meanwhile, so nothing would use the layer.
            continue;
        }
        let done = written
            .and_then(|()| synced.clone())
            .and_then(|()| move_in(layout, dir, &scratch, &record));
        match done {
            Ok(()) => moved.push((scratch, record, reply)),
            Err(error) => drop(reply.send(Err(error))),
        }
    }
    let recorded = fsync(dir)
        .map_err(|error| Error::io("syncing the layer directory", error.into()))
        .and_then(|()| {
            index.update(|_, change| {
                change.layers.extend(
                    moved
                        .iter()
                        .map(|(_, record, _)| (record.key, Some(record.clone()))),
                );
                Ok(())
            })
        });
    if recorded.is_err() && !take_back(layout, index, &moved) {
        strays.store(true, Ordering::Release);
    }
    for (_, _, reply) in moved {
        drop(reply.send(recorded.clone()));
    }
}

fn write_record(scratch: &Path, record: &LayerRecord) -> Result<()> {
    let path = scratch.join(RECORD);
    let text = serde_json::to_vec(record)
        .map_err(|error| Error::store("encoding a layer record", error))?;
    std::fs::write(&path, text).map_err(|error| Error::at("writing", &path, error))
}

fn move_in(layout: &Layout, dir: &OwnedFd, scratch: &Scratch, record: &LayerRecord) -> Result<()> {
    let target = record.key.hex();
    match renameat_with(
        rustix::fs::CWD,
        scratch.path(),
        dir,
        &*target,
        RenameFlags::NOREPLACE,
    ) {
        // The same layer was unpacked twice at the same time: one copy is enough.
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(Error::at(
            "moving a layer to",
            &layout.layer(&record.key),
            error,
        )),
    }
}

/// Moves layers that did not get into the index back to their scratch directories, which are removed. Returns whether
/// that worked for all of them.
fn take_back(layout: &Layout, index: &Index, moved: &[Job]) -> bool {
    let mut all = true;
    for (scratch, record, _) in moved {
        let layer = layout.layer(&record.key);
        let taken = index.knows(&record.key).and_then(|known| {
            let is_there = !known && layer.exists();
            let back = is_there.then(|| std::fs::rename(&layer, scratch.path()));
            back.unwrap_or(Ok(()))
                .map_err(|error| Error::at("moving back", &layer, error))
        });
        if let Err(error) = taken {
            tracing::warn!(%error, "cannot remove a layer that no image uses; the next garbage collection tries again");
            all = false;
        }
    }
    all
}

fn open_dir(path: &Path) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    open(path, flags, Mode::empty()).map_err(|error| Error::at("opening", path, error))
}
