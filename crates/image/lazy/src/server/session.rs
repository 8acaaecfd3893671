//! A session: the state shared by its threads, and the handling of reads.

use std::collections::BTreeSet;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use crate::answer::Answers;
use crate::fuse::Reply;
use crate::journal::{Journal, Noted};
use crate::layers::{Layer, Layers};
use crate::signal::is_dying;
use crate::waiting::{Parked, Read, Released, Waiting};

/// The state that all threads share.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) fuse: OwnedFd,
    pub(crate) journal: Journal,
    pub(crate) layers: RwLock<Layers>,
    pub(crate) waiting: Mutex<Waiting>,
    /// An eventfd that wakes the control thread.
    pub(crate) bell: OwnedFd,
    over: AtomicBool,
}

/// The reason for a read without data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Some of the parts are missing.
    Missing,
    /// The read fails with this error.
    Fails(Errno),
}

impl Session {
    pub(crate) fn new(
        fuse: OwnedFd,
        journal: Journal,
        layers: Layers,
        taken: &BTreeSet<usize>,
    ) -> rustix::io::Result<Self> {
        let used = journal.used();
        Ok(Self {
            fuse,
            journal,
            layers: RwLock::new(layers),
            waiting: Mutex::new(Waiting::new(used, taken)),
            bell: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            over: AtomicBool::new(false),
        })
    }

    /// Answers a read, or queues it until its parts arrive.
    pub(crate) fn read(&self, read: Read, answers: &mut Answers) {
        match self.serve(&read, answers) {
            Ok(()) => {}
            Err(Refused::Fails(errno)) => self.fail(&read, errno),
            Err(Refused::Missing) => self.wait(read, None, answers),
        }
    }

    /// Continues a read that waited when the previous server died.
    pub(crate) fn adopt(&self, entry: usize, noted: Noted, answers: &mut Answers) {
        let read = noted.read;
        match self.serve(&read, answers) {
            Ok(()) => self.erase(entry),
            Err(Refused::Fails(errno)) => self.fail_noted(read, Some((entry, noted)), errno),
            Err(Refused::Missing) => self.wait(read, Some((entry, noted)), answers),
        }
    }

    /// Queues a read. `noted` is its journal entry, if it already has one.
    fn wait(&self, read: Read, noted: Option<(usize, Noted)>, answers: &mut Answers) {
        let layer = self.layers.read().by_node(read.node);
        let Some(layer) = layer.filter(|layer| !layer.entry.removed) else {
            // The layer may be complete, and removed for that reason.
            self.serve_or_fail(&read, answers);
            if let Some((entry, _)) = noted {
                self.erase(entry);
            }
            return;
        };
        let now = Instant::now();
        let container = orlop_lazy::container_ids(read.pid).into_iter().next();
        let mut waiting = self.waiting.lock();
        // The missing parts may have arrived since the check; under the lock no read is released.
        let missing = match missing(&layer, &read) {
            Ok(missing) if missing.is_empty() => {
                drop(waiting);
                self.serve_or_fail(&read, answers);
                if let Some((entry, _)) = noted {
                    self.erase(entry);
                }
                return;
            }
            Ok(missing) => missing,
            Err(errno) => {
                drop(waiting);
                return self.fail_noted(read, noted, errno);
            }
        };
        let parked = if let Some((entry, noted)) = noted {
            let left = noted.deadline.saturating_sub(clock_ms());
            let deadline = now + Duration::from_millis(left).min(layer.timeout());
            waiting.park_at(read, container, entry, &missing, deadline)
        } else {
            let deadline = now + layer.timeout();
            waiting.park(read, container, &missing, now, deadline)
        };
        match parked {
            Parked::Waits {
                entry,
                news,
                signalled,
            } => {
                if noted.is_none() {
                    let deadline = clock_ms().saturating_add(layer.entry.timeout_ms);
                    self.journal.note(entry, &read, deadline);
                }
                drop(waiting);
                if news {
                    self.ring();
                }
                if signalled || noted.is_some_and(|(_, noted)| noted.signalled) {
                    self.signalled(read.unique);
                }
            }
            Parked::Failed | Parked::Full => {
                drop(waiting);
                self.fail(&read, Errno::IO);
            }
        }
    }

    /// Handles a signal for the reading thread.
    pub(crate) fn signalled(&self, unique: u64) {
        let found = {
            let mut waiting = self.waiting.lock();
            let found = waiting.signalled(unique);
            if let Some(released) = &found {
                self.journal.note_signal(released.entry);
                waiting.watch(unique);
            }
            found
        };
        if let Some(released) = found {
            self.end_if_dying(&released.read);
            // The control thread checks a surviving reader again later.
            self.ring();
        }
    }

    /// Fails a read with EINTR if its thread is dying.
    pub(crate) fn end_if_dying(&self, read: &Read) {
        if !is_dying(read.pid) {
            return;
        }
        let released = self.waiting.lock().release(read.unique);
        if let Some(released) = released {
            self.fail(&released.read, Errno::INTR);
            self.erase(released.entry);
        }
    }

    /// Answers a released read with the present data; returns whether that succeeded.
    pub(crate) fn finish(&self, released: Released, answers: &mut Answers) -> bool {
        let served = self.serve_or_fail(&released.read, answers);
        self.erase(released.entry);
        served
    }

    fn serve_or_fail(&self, read: &Read, answers: &mut Answers) -> bool {
        match self.serve(read, answers) {
            Ok(()) => return true,
            Err(Refused::Missing) => self.fail(read, Errno::IO),
            Err(Refused::Fails(errno)) => self.fail(read, errno),
        }
        false
    }

    /// Fails a read whose wait was in vain.
    pub(crate) fn give_up(&self, released: Released) {
        self.fail(&released.read, Errno::IO);
        self.erase(released.entry);
    }

    /// Answers a read if all of its parts are present.
    fn serve(&self, read: &Read, answers: &mut Answers) -> Result<(), Refused> {
        let layer = self.layers.read().by_node(read.node);
        let layer = layer.ok_or(Refused::Fails(Errno::STALE))?;
        let parts = layer.parts.as_ref().ok_or(Refused::Fails(Errno::IO))?;
        let bytes = bytes(&layer, read);
        if !parts
            .has(bytes.clone())
            .map_err(|_| Refused::Fails(Errno::IO))?
        {
            return Err(Refused::Missing);
        }
        answers.send(&self.fuse, read.unique, parts.image(), bytes);
        Ok(())
    }

    fn fail(&self, read: &Read, errno: Errno) {
        Reply::error(read.unique, errno).send(&self.fuse);
    }

    fn fail_noted(&self, read: Read, noted: Option<(usize, Noted)>, errno: Errno) {
        self.fail(&read, errno);
        if let Some((entry, _)) = noted {
            self.erase(entry);
        }
    }

    /// Erases the journal entry of an answered read.
    fn erase(&self, entry: usize) {
        self.journal.erase(entry);
        self.waiting.lock().give_back(entry);
    }

    /// Wakes the control thread.
    pub(crate) fn ring(&self) {
        // The write only fails if many wakeups are pending already.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    /// Handles the end of the session by the kernel.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Release);
        self.ring();
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }
}

/// Returns the byte range of a read, cut at the layer's end.
fn bytes(layer: &Layer, read: &Read) -> Range<u64> {
    let start = read.offset.min(layer.entry.size);
    let end = read.offset.saturating_add(u64::from(read.size));
    start..end.min(layer.entry.size)
}

fn missing(layer: &Layer, read: &Read) -> Result<Vec<Range<u64>>, Errno> {
    let parts = layer.parts.as_ref().ok_or(Errno::IO)?;
    parts.missing(bytes(layer, read)).map_err(|_| Errno::IO)
}

/// Returns milliseconds of the system-wide monotonic clock.
fn clock_ms() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}
