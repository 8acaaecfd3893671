//! Progress of a pull, for any number of watchers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::steps::Steps;
use crate::Digest;
use crate::registry::next_number;

/// Snapshot of a pull in flight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullProgress {
    /// The image, normalised.
    pub reference: String,
    /// Its layers, base first; empty until the manifest is known.
    pub layers: Vec<LayerProgress>,
}

/// Snapshot of a layer of a pull in flight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerProgress {
    /// The compressed layer's digest.
    pub digest: Digest,
    /// The current stage.
    pub state: LayerState,
    /// Total number of compressed bytes.
    pub total: u64,
    /// Number of downloaded compressed bytes.
    pub downloaded: u64,
    /// Number of unpacked compressed bytes.
    pub unpacked: u64,
}

/// The stages of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum LayerState {
    /// Waits for its turn, or for another pull that fetches it.
    Waiting,
    /// Is downloaded and unpacked at the same time.
    Downloading,
    /// Is downloaded completely, and still being unpacked.
    Unpacking,
    /// Is being written to disk durably.
    Publishing,
    /// Is complete.
    Done,
    /// Was already in the store.
    Present,
    /// Can be used; its content is fetched when it is read.
    Begun,
}

impl LayerState {
    fn from_u8(value: u8) -> Self {
        [
            Self::Waiting,
            Self::Downloading,
            Self::Unpacking,
            Self::Publishing,
            Self::Done,
            Self::Present,
            Self::Begun,
        ]
        .into_iter()
        .find(|state| *state as u8 == value)
        .unwrap_or(Self::Waiting)
    }
}

/// The recorded progress of a pull.
pub(crate) struct Tracker {
    reference: String,
    /// Number of the pull, unique for the lifetime of the daemon.
    pub(crate) number: u64,
    pub(crate) steps: Arc<Steps>,
    layers: Mutex<Vec<Arc<LayerTracker>>>,
}

/// The recorded progress of a layer.
pub(super) struct LayerTracker {
    digest: Digest,
    total: u64,
    /// Steps of the whole pull.
    pub(super) steps: Arc<Steps>,
    state: AtomicU8,
    pub(super) downloaded: Arc<AtomicU64>,
    pub(super) unpacked: Arc<AtomicU64>,
}

impl Tracker {
    pub(crate) fn new(reference: String) -> Self {
        Self {
            reference,
            number: next_number(),
            steps: Arc::default(),
            layers: Mutex::default(),
        }
    }

    pub(super) fn add(&self, digest: Digest, total: u64) -> Arc<LayerTracker> {
        let layer = Arc::new(LayerTracker {
            digest,
            total,
            steps: Arc::clone(&self.steps),
            state: AtomicU8::new(LayerState::Waiting as u8),
            downloaded: Arc::default(),
            unpacked: Arc::default(),
        });
        self.layers.lock().push(Arc::clone(&layer));
        layer
    }

    pub(super) fn snapshot(&self) -> PullProgress {
        let layers = self.layers.lock();
        PullProgress {
            reference: self.reference.clone(),
            layers: layers.iter().map(|layer| layer.snapshot()).collect(),
        }
    }
}

impl LayerTracker {
    pub(super) fn enter(&self, state: LayerState) {
        self.state.store(state as u8, Ordering::Relaxed);
    }

    fn snapshot(&self) -> LayerProgress {
        let state = LayerState::from_u8(self.state.load(Ordering::Relaxed));
        let finished = matches!(
            state,
            LayerState::Done | LayerState::Present | LayerState::Publishing
        );
        let or_all = |bytes: &AtomicU64| {
            if finished {
                self.total
            } else {
                bytes.load(Ordering::Relaxed)
            }
        };
        LayerProgress {
            digest: self.digest,
            state,
            total: self.total,
            downloaded: or_all(&self.downloaded),
            unpacked: or_all(&self.unpacked),
        }
    }
}
