//! Reports of failed reads.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use orlop_lazy::ReadFailed;
use parking_lot::Mutex;
use tokio::sync::broadcast;

use crate::store::{Form, Store};
use crate::{Digest, Reference};

/// Minimum time between two reports for one layer, because readers may retry at once.
const TOLD_EVERY: Duration = Duration::from_secs(10);
/// Number of reports that are kept for a slow listener.
const KEPT: usize = 64;

/// A failed read of a lazy layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadFailure {
    /// The layer's name on disk.
    pub layer: Digest,
    /// Ids of the images that contain the layer.
    pub images: Vec<Digest>,
    /// Names of these images.
    pub names: Vec<String>,
    /// The registry that the layer is fetched from.
    pub registry: String,
    /// The reason, as text.
    pub reason: String,
    /// Whether the read timed out.
    pub timed_out: bool,
}

/// Counters of lazy layers since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LazyCounts {
    /// Number of layers that are not complete.
    pub layers: usize,
    /// Bytes of layers that were fetched.
    pub fetched: u64,
    /// Number of failed reads.
    pub failed: u64,
    /// Number of failed reads that timed out.
    pub timed_out: u64,
}

/// Counter and reporter of failed reads.
pub(super) struct Failures {
    state: Mutex<State>,
    tell: broadcast::Sender<ReadFailure>,
}

#[derive(Default)]
struct State {
    counts: LazyCounts,
    told: HashMap<Digest, Instant>,
}

impl Default for Failures {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            tell: broadcast::Sender::new(KEPT),
        }
    }
}

impl Failures {
    pub(super) fn subscribe(&self) -> broadcast::Receiver<ReadFailure> {
        self.tell.subscribe()
    }

    pub(super) fn counts(&self) -> LazyCounts {
        self.state.lock().counts
    }

    pub(super) fn note(&self, store: &Store, failed: &ReadFailed) {
        let Ok(layer) = Digest::from_hex(&failed.key) else {
            return;
        };
        if !self.is_to_be_told(layer, failed.timed_out) {
            return;
        }
        let failure = describe(store, layer, failed);
        tracing::error!(
            %layer,
            registry = failure.registry,
            images = ?failure.names,
            reason = failure.reason,
            "cannot fetch data of a lazy layer that a container reads"
        );
        // There may be no listener.
        let _ = self.tell.send(failure);
    }

    fn is_to_be_told(&self, layer: Digest, timed_out: bool) -> bool {
        let now = Instant::now();
        let mut state = self.state.lock();
        state.counts.failed += 1;
        state.counts.timed_out += u64::from(timed_out);
        state
            .told
            .retain(|_, at| now.duration_since(*at) < TOLD_EVERY);
        if state.told.contains_key(&layer) {
            return false;
        }
        state.told.insert(layer, now);
        true
    }
}

fn describe(store: &Store, layer: Digest, failed: &ReadFailed) -> ReadFailure {
    let state = store.state();
    let images = state.images.values();
    let images: Vec<_> = images
        .filter(|image| image.layers.contains(&layer))
        .collect();
    let names = |image: &&crate::store::ImageRecord| {
        let name = image.tags.iter().chain(&image.digests).next();
        name.cloned()
    };
    let repository = match state.layers.get(&layer).map(|record| &record.form) {
        Some(Form::Lazy(lazy)) => lazy.repository.parse::<Reference>().ok(),
        _ => None,
    };
    ReadFailure {
        layer,
        names: images.iter().filter_map(names).collect(),
        images: images.iter().map(|image| image.id).collect(),
        registry: repository.map_or_else(String::new, |it| it.repository().domain().to_owned()),
        reason: failed.reason.clone(),
        timed_out: failed.timed_out,
    }
}
