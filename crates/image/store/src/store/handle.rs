//! The interface of the store for the rest of the crate.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, MutexGuard, RwLockReadGuard};

use super::index::{Change, Index, State};
use super::label::LayerLabel;
use super::layout::Layout;
use super::publish::Publisher;
use super::{Form, LayerRecord, Scratch, startup};
use crate::document::Document;
use crate::evidence::Kept;
use crate::{Digest, Result};

/// Layers and records on disk. Methods that block say so.
pub(crate) struct Store {
    pub(super) layout: Layout,
    pub(super) index: Arc<Index>,
    pub(super) holds: Arc<Holds>,
    /// Held while layer directories and their records are moved into or out of the store.
    pub(super) moves: Arc<Mutex<()>>,
    /// Whether the store may contain layers that could not be recorded.
    pub(super) has_strays: Arc<AtomicBool>,
    /// Held while layers are mounted and unmounted.
    pub(super) mounting: Mutex<()>,
    /// The SELinux label of layers.
    pub(super) label: Option<LayerLabel>,
    publisher: Publisher,
    /// Called for each lazy layer that is removed.
    on_removal: OnceLock<OnRemoval>,
}

type OnRemoval = Box<dyn Fn(&Digest) + Send + Sync>;

/// Layers that running work needs, in addition to those of images and leases.
#[derive(Default)]
pub(super) struct Holds(Mutex<HashMap<Digest, usize>>);

impl Holds {
    pub(super) fn lock(&self) -> MutexGuard<'_, HashMap<Digest, usize>> {
        self.0.lock()
    }
}

/// Guard that prevents the removal of a layer.
pub(crate) struct Hold {
    key: Digest,
    holds: Arc<Holds>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut holds = self.holds.lock();
        if let Some(count) = holds.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                holds.remove(&self.key);
            }
        }
    }
}

impl Store {
    /// Opens the store at `root` and repairs it after an unclean stop. Its layers get the SELinux label, if one is
    /// given. Blocks.
    pub(crate) fn open(root: &Path, label: Option<String>) -> Result<Self> {
        let layout = Layout::create(root)?;
        // Read first, because opening the index changes the time.
        let used = std::fs::metadata(layout.index())
            .and_then(|look| look.modified())
            .unwrap_or(std::time::UNIX_EPOCH);
        let index = Arc::new(Index::open(&layout.index(), layout.leases())?);
        startup::mend(&layout, &index, used)?;
        // Only now is it certain that no other process uses the store.
        let label = label.map(LayerLabel::new);
        if let Some(label) = &label {
            label.begin(&layout);
        }
        let moves = Arc::new(Mutex::new(()));
        let has_strays = Arc::default();
        let publisher = Publisher::start(
            layout.clone(),
            Arc::clone(&index),
            Arc::clone(&moves),
            Arc::clone(&has_strays),
        )?;
        Ok(Self {
            layout,
            index,
            holds: Arc::default(),
            moves,
            has_strays,
            mounting: Mutex::default(),
            label,
            publisher,
            on_removal: OnceLock::new(),
        })
    }

    /// Sets the callback for removed lazy layers.
    pub(crate) fn on_removal(&self, tell: OnRemoval) {
        // Only the first callback is used.
        let _ = self.on_removal.set(tell);
    }

    pub(super) fn tell_removal(&self, record: &LayerRecord) {
        if let (Form::Lazy(_), Some(tell)) = (&record.form, self.on_removal.get()) {
            tell(&record.key);
        }
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(crate) fn state(&self) -> RwLockReadGuard<'_, State> {
        self.index.state()
    }

    /// Changes the index durably. Blocks.
    pub(crate) fn update<T>(
        &self,
        decide: impl FnOnce(&State, &mut Change) -> Result<T>,
    ) -> Result<T> {
        self.index.update(decide)
    }

    /// Returns a manifest, index or configuration. Blocks.
    pub(crate) fn document(&self, digest: &Digest) -> Result<Option<Document>> {
        self.index.document(digest)
    }

    /// Returns the stored findings about an image's signatures. Blocks.
    pub(crate) fn evidence(&self, image: &Digest) -> Result<Kept> {
        self.index.evidence(image)
    }

    /// Holds the layer `key`, which need not exist yet.
    pub(crate) fn hold(&self, key: Digest) -> Hold {
        *self.holds.lock().entry(key).or_insert(0) += 1;
        Hold {
            key,
            holds: Arc::clone(&self.holds),
        }
    }

    /// Moves an unpacked layer into the store. It is durable and visible when this returns.
    pub(crate) async fn publish(&self, scratch: Scratch, record: LayerRecord) -> Result<()> {
        self.publisher.publish(scratch, record).await
    }

    /// Returns the directories with the files of these layers once they are mounted, top first.
    pub(crate) fn dirs(&self, keys: &[Digest]) -> Vec<PathBuf> {
        let state = self.state();
        let dir = |key: &Digest| {
            let form = state.layers.get(key).map(|record| &record.form);
            self.layout.files(key, form.unwrap_or(&Form::Files))
        };
        keys.iter().rev().map(dir).collect()
    }

    /// Returns the lower directories of these layers, top first, and mounts them if necessary. Blocks.
    pub(crate) fn lower_dirs(&self, keys: &[Digest]) -> Result<Vec<PathBuf>> {
        let dir = |key: &Digest| {
            let form = {
                let state = self.state();
                state.layers.get(key).map(|record| record.form.clone())
            };
            self.mounted(key, &form.unwrap_or_default())
        };
        keys.iter().rev().map(dir).collect()
    }

    /// Returns whether all of these layers are plain directories, which need no mount and no label.
    pub(crate) fn need_nothing(&self, keys: &[Digest]) -> bool {
        if self.label.is_some() {
            return false;
        }
        let state = self.state();
        let forms = keys.iter().filter_map(|key| state.layers.get(key));
        forms
            .map(|record| &record.form)
            .all(|form| *form == Form::Files)
    }
}

impl Store {
    /// Unmounts the layers that no container uses, and marks the store as cleanly closed. Accepts no more layers.
    /// Blocks.
    pub(crate) fn close(&self) {
        // Nothing may write to the store after it is marked as clean.
        self.publisher.stop();
        self.unmount_idle();
        match std::fs::remove_file(self.layout.running()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                tracing::warn!(%error, "cannot mark the image store as closed; the next start checks it");
            }
            _ => {}
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.close();
    }
}
