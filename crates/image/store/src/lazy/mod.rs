//! Mounts layers while they are still being downloaded.
//!
//! ```text
//! pull: annotations ─► table of contents ─► image without content, published ─► container starts
//!                                                  ▲ write, mark
//! a read ─► orlop-lazy ─► [`Lazies::bring`] ─► ranges of the blob, verified chunk by chunk
//! nobody reads ──────────► [`rest`]: the same, a window at a time ─► whole: an ordinary EROFS layer
//! ```
//!
//! The manifest verifies the table of contents, and the table of contents verifies each chunk. Nothing computes the
//! digest of the whole archive. So a lazy layer has a key of its own (`pull/lazy_layer.rs`): an image gets it only if
//! its manifest names the same table of contents.

mod budget;
mod build;
mod demand;
mod failure;
mod fetch;
mod layer;
mod plan;
mod rest;
mod server;
mod settings;
mod sources;
mod verify;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use orlop_lazy::{Answers, Event, Fetch};
use parking_lot::{Mutex, RwLock};
use tokio::sync::{Notify, Semaphore, SemaphorePermit, broadcast, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::budget::Budget;
use self::demand::Demand;
use self::layer::Layer;
use self::server::{Serving, Told};
use self::sources::Sources;
use crate::blocking::{answering, blocking};
use crate::registry::{self, Keyring, Remote};
use crate::store::{Form, LayerRecord, State, Store, is_known};
use crate::{Digest, Error, Reference, Repository, Result};

pub(crate) use build::{Described, build, describe};
pub use failure::{LazyCounts, ReadFailure};
pub(crate) use fetch::{Anything, Part, fetch};
pub use settings::LazySettings;
pub(crate) use verify::check;

/// Number of stalled connections before a read fails. The timeout of each is at least `SHORTEST_STALL`.
const STALLS: u32 = 3;
const SHORTEST_STALL: Duration = Duration::from_secs(1);
/// A fetch continues for this time after the timeout of its read.
const GRACE: Duration = Duration::from_secs(1);
/// Delay before an unavailable registry is asked again.
const AGAIN: Duration = Duration::from_millis(500);
/// Number of attempts, and the pause between them, to become the only user of a complete layer.
const HAND_TRIES: u32 = 200;
const HAND_PAUSE: Duration = Duration::from_millis(5);
/// Number of layers whose contents stay in memory.
const MOST_KEPT: usize = 4;

/// A function that finds the image of a container by the container's id.
pub(crate) type ImageOf = Box<dyn Fn(&str) -> Option<Digest> + Send + Sync>;

/// All lazy layers of a store.
pub(crate) struct Lazies {
    settings: RwLock<LazySettings>,
    store: Arc<Store>,
    sources: Sources,
    serving: Arc<Serving>,
    layers: Mutex<HashMap<Digest, Arc<Layer>>>,
    /// The layers that were used most recently.
    used: Mutex<VecDeque<Weak<Layer>>>,
    /// Only one table of contents is read at a time, because each may be large.
    tables: Semaphore,
    demand: Demand,
    image_of: OnceLock<ImageOf>,
    /// Notified when a layer is removed, complete or no longer lazy.
    room: Notify,
    /// Only one layer is downloaded in the background at a time.
    turn: Semaphore,
    budget: Budget,
    failures: failure::Failures,
    /// Number of bytes fetched.
    fetched: AtomicU64,
    tasks: TaskTracker,
    cancel: CancellationToken,
}

/// The downloaded part of a layer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Here {
    /// Number of bytes on disk.
    pub bytes: u64,
    /// Total number of bytes.
    pub of: u64,
}

/// Shortens the progress timeout, so that a stalled connection is given up before the read times out.
fn impatient(registry: registry::Settings, timeout: Duration) -> registry::Settings {
    let stalls = (timeout / STALLS).max(SHORTEST_STALL);
    registry::Settings {
        progress_timeout: registry.progress_timeout.min(stalls),
        ..registry
    }
}

impl Lazies {
    pub(crate) fn new(
        settings: LazySettings,
        registry: registry::Settings,
        store: &Arc<Store>,
    ) -> Arc<Self> {
        let registry = impatient(registry, settings.timeout);
        let (tell, told) = mpsc::unbounded_channel();
        let lazies = Arc::new(Self {
            serving: Arc::new(Serving::new(&settings, store.layout(), tell)),
            store: Arc::clone(store),
            sources: Sources::new(registry),
            layers: Mutex::default(),
            used: Mutex::default(),
            tables: Semaphore::new(1),
            demand: Demand::default(),
            image_of: OnceLock::new(),
            room: Notify::new(),
            turn: Semaphore::new(1),
            budget: Budget::new(settings.bandwidth),
            failures: failure::Failures::default(),
            fetched: AtomicU64::new(0),
            tasks: TaskTracker::new(),
            cancel: CancellationToken::new(),
            settings: RwLock::new(settings),
        });
        let serving = Arc::downgrade(&lazies);
        store.on_removal(Box::new({
            let lazies = Arc::downgrade(&lazies);
            move |key| {
                if let Some(lazies) = lazies.upgrade() {
                    lazies.forget(key);
                }
            }
        }));
        lazies.spawn(async move { dispatch(serving, told).await });
        lazies
    }

    /// Applies new settings. The server keeps its timeout, and background downloads keep their bandwidth limit.
    pub(crate) async fn reconfigure(&self, settings: LazySettings, registry: registry::Settings) {
        let timeout = self.settings.read().timeout;
        let registry = impatient(registry, timeout);
        self.sources.reconfigure(registry).await;
        *self.settings.write() = LazySettings {
            timeout,
            ..settings
        };
    }

    /// Sets the function that finds the images of containers.
    pub(crate) fn find_images_by(&self, image_of: ImageOf) {
        // This is the only place that sets it, once.
        let _ = self.image_of.set(image_of);
    }

    /// Returns the image of the container that a thread belongs to. Blocks.
    fn image_of_thread(&self, pid: u32) -> Option<Digest> {
        let image_of = self.image_of.get()?;
        let ids = orlop_lazy::container_ids(pid);
        ids.iter().find_map(|id| image_of(id))
    }

    /// Resumes the lazy layers of an earlier process.
    pub(crate) async fn resume(self: &Arc<Self>) -> Result<()> {
        let lazy = self.lazy_records();
        let (serving, store, keys) = (Arc::clone(&self.serving), Arc::clone(&self.store), {
            lazy.iter().map(|record| record.key).collect::<Vec<_>>()
        });
        blocking(move || {
            let found = serving.find().unwrap_or_else(|error| {
                let error = orlop_text::with_causes(&error);
                tracing::warn!(error, "cannot use the running lazy layer server; starting a new one");
                false
            });
            if found {
                for gone in serving.layers().iter().filter(|key| !keys.contains(key)) {
                    serving.remove(gone);
                }
                return Ok(());
            }
            // Nothing serves the mounts, and a power failure may have lost data that was not synced.
            for key in &keys {
                let dir = store.layout().layer(key);
                let forgotten = orlop_lazy::Parts::open(&dir).and_then(|it| it.forget_unsynced());
                if let Err(error) = forgotten {
                    tracing::warn!(layer = %key, %error, "cannot read which parts of a lazy layer are on disk");
                }
            }
            store.unmount_lazy()
        })
        .await?;
        let lazies = Arc::clone(self);
        // A layer that is read meanwhile is opened first.
        self.spawn(async move {
            for record in lazy {
                if let Err(error) = lazies.open(&record).await {
                    let error = orlop_text::with_causes(&error);
                    tracing::warn!(layer = %record.key, error, "cannot continue to fetch a lazy layer");
                }
            }
        });
        Ok(())
    }

    /// Stops all work. The server continues if lazy layers may still be read.
    pub(crate) async fn close(&self) {
        self.cancel.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        self.layers.lock().clear();
        self.sources.clear().await;
        let end = !self.store.may_be_read_lazily();
        let serving = Arc::clone(&self.serving);
        let closed = blocking(move || {
            serving.close(end);
            Ok(())
        });
        if let Err(error) = closed.await {
            tracing::debug!(%error, "cannot close lazy layers");
        }
    }

    /// Returns whether layers of this repository may be lazy.
    pub(crate) fn is_for(&self, repository: &Repository) -> bool {
        self.settings.read().is_for(repository)
    }

    /// Returns whether a lazy layer exists.
    pub(crate) fn has_any(&self) -> bool {
        let state = self.store.state();
        let mut layers = state.layers.values();
        layers.any(LayerRecord::is_lazy)
    }

    /// Remembers the credentials of a pull. `proven` means that the registry served a layer with them.
    pub(crate) async fn note(&self, repository: &Repository, keyring: &Keyring, proven: bool) {
        let in_use = || self.repositories_of_lazy_layers();
        self.sources.note(repository, keyring, proven, in_use).await;
    }

    /// Waits for a permit to read a table of contents.
    pub(crate) async fn turn_to_read(&self) -> Result<SemaphorePermit<'_>> {
        let turn = self.tables.acquire().await;
        turn.map_err(|_| Error::Cancelled("reading a table of contents".to_owned()))
    }

    /// Checks for EROFS support and starts the server.
    pub(crate) async fn prepare(&self) -> Result<()> {
        let serving = Arc::clone(&self.serving);
        blocking(move || {
            if !is_known("erofs") {
                let problem = "the kernel does not support EROFS, which lazy layers require";
                return Err(Error::Unsupported(problem.to_owned()));
            }
            serving.prepare()
        })
        .await
    }

    async fn open(self: &Arc<Self>, record: &LayerRecord) -> Result<()> {
        let Form::Lazy(lazy) = &record.form else {
            return Ok(());
        };
        if self.layers.lock().contains_key(&record.key) {
            return Ok(());
        }
        let (key, blob, bytes) = (record.key, (lazy.blob, lazy.blob_bytes), lazy.bytes);
        let (store, serving) = (Arc::clone(&self.store), Arc::clone(&self.serving));
        let layer = answering(move || {
            let dir = store.layout().layer(&key);
            // An earlier process published this layer's image: nothing may write to it any more.
            if store.layout().layer_image(&key).exists() {
                store.make_whole(&key)?;
                return Ok(None);
            }
            let layer = Layer::open(key, &dir, blob)?;
            serving.add(&key, &dir, bytes)?;
            Ok(Some(layer))
        });
        let Some(layer) = layer.await? else {
            return Ok(());
        };
        // Reads usually follow soon after a pull.
        self.demand.expected();
        match self.layers.lock().entry(key) {
            Entry::Occupied(_) => return Ok(()),
            Entry::Vacant(vacant) => drop(vacant.insert(Arc::new(layer))),
        }
        let lazies = Arc::clone(self);
        self.spawn(async move { lazies.rest(key).await });
        Ok(())
    }

    /// Registers the lazy layers among these with the server, so that they can be mounted.
    pub(crate) async fn serve(self: &Arc<Self>, keys: &[Digest]) -> Result<()> {
        let lazy: Vec<LayerRecord> = {
            let state = self.store.state();
            let records = keys.iter().filter_map(|key| state.layers.get(key));
            let lazy = records.filter(|record| record.is_lazy());
            lazy.cloned().collect()
        };
        for record in lazy {
            self.open(&record).await?;
        }
        Ok(())
    }

    /// Returns the lower directories of these layers, top first, with the lazy ones served.
    pub(crate) async fn lower_dirs(self: &Arc<Self>, keys: Vec<Digest>) -> Result<Vec<PathBuf>> {
        self.serve(&keys).await?;
        let store = Arc::clone(&self.store);
        blocking(move || store.lower_dirs(&keys)).await
    }

    /// Removes a deleted layer from memory and from the server. Blocks.
    pub(crate) fn forget(&self, key: &Digest) {
        self.layers.lock().remove(key);
        self.room.notify_waiters();
        self.serving.remove(key);
    }

    /// Downloads all of these layers and waits until they are complete.
    pub(crate) async fn fetch_rest(self: &Arc<Self>, keys: &[Digest]) -> Result<()> {
        self.serve(keys).await?;
        for key in keys {
            let Some(layer) = self.layers.lock().get(key).cloned() else {
                continue;
            };
            {
                let _wanted = self.demand.wanted();
                self.fetch_windows(key, &layer).await?;
            }
            drop(layer);
            self.promote(key).await?;
        }
        Ok(())
    }

    /// Returns how much of a lazy layer is on disk, or `None` for other layers. Blocks.
    pub(crate) fn here(&self, key: &Digest) -> Option<Here> {
        let layer = self.layers.lock().get(key).cloned()?;
        let of = layer.parts().size();
        let missing = layer.missing(0..of).ok()?;
        let missing: u64 = missing.iter().map(|range| range.end - range.start).sum();
        Some(Here {
            bytes: of - missing,
            of,
        })
    }

    pub(crate) fn counts(&self) -> LazyCounts {
        let mut counts = self.failures.counts();
        counts.layers = self.layers.lock().len();
        counts.fetched = self.fetched.load(Ordering::Relaxed);
        counts
    }

    /// Subscribes to failed reads.
    pub(crate) fn failures(&self) -> broadcast::Receiver<ReadFailure> {
        self.failures.subscribe()
    }

    /// Answers a read of data that is not on disk.
    async fn answer(self: Arc<Self>, fetch: Fetch, answers: Answers) {
        let _wanted = self.demand.wanted();
        // The server fails the read a little earlier, because it counts from the read on.
        let patience = self.settings.read().timeout + GRACE;
        let brought = tokio::time::timeout(patience, self.bring_in_the_end(&fetch)).await;
        let answered = match brought {
            Ok(Ok(())) => answers.is_here(fetch.id),
            Ok(Err(error)) => answers.failed(fetch.id, &orlop_text::with_causes(&error)),
            Err(_) => {
                let reason = format!("the registry sent no usable data within {patience:?}");
                answers.failed(fetch.id, &reason)
            }
        };
        if let Err(error) = answered {
            tracing::debug!(
                %error,
                "cannot answer a fetch request; the lazy layer server repeats it"
            );
        }
    }

    /// Fetches data, and retries while the registry is unavailable.
    async fn bring_in_the_end(self: &Arc<Self>, fetch: &Fetch) -> Result<()> {
        loop {
            match self.bring(fetch).await {
                Err(error @ Error::RegistryUnavailable { .. }) => {
                    tracing::debug!(layer = fetch.key, %error, "the registry is unavailable; retrying");
                    tokio::time::sleep(AGAIN).await;
                }
                done => return done,
            }
        }
    }

    async fn bring(self: &Arc<Self>, fetch: &Fetch) -> Result<()> {
        let unknown = || Error::NotFound(fetch.key.clone());
        let key = Digest::from_hex(&fetch.key).map_err(|_| unknown())?;
        if self.is_whole(&key).await? {
            return Ok(());
        }
        self.serve(&[key]).await?;
        let layer = self.layers.lock().get(&key).cloned();
        let layer = layer.ok_or_else(unknown)?;
        let end = fetch.offset.saturating_add(fetch.length);
        let (lazies, pid) = (Arc::clone(self), fetch.pid);
        let reader = answering(move || Ok(lazies.image_of_thread(pid))).await?;
        let remotes = self.remotes_of(&key, reader).await?;
        let fetched = layer.fetch(&remotes, fetch.offset..end).await?;
        self.let_rest(&layer);
        self.fetched.fetch_add(fetched, Ordering::Relaxed);
        drop(layer);
        // Wakes the task that makes a complete layer an ordinary one.
        if self.is_all_here(&key).await? {
            self.room.notify_waiters();
        }
        Ok(())
    }

    /// Returns whether a layer is complete or no longer lazy.
    async fn is_all_here(&self, key: &Digest) -> Result<bool> {
        let Some(layer) = self.layers.lock().get(key).cloned() else {
            return Ok(true);
        };
        answering(move || Ok(layer.missing(0..u64::MAX)?.is_empty())).await
    }

    /// Returns whether a layer is complete and no longer in the list.
    async fn is_whole(&self, key: &Digest) -> Result<bool> {
        if self.layers.lock().contains_key(key) {
            return Ok(false);
        }
        let dir = self.store.layout().layer(key);
        answering(move || {
            let parts = orlop_lazy::Parts::open_to_read(&dir);
            let is_whole = parts.and_then(|parts| parts.has(0..parts.size()));
            Ok(is_whole.unwrap_or(false))
        })
        .await
    }

    /// Returns the repositories that lazy layers are fetched from.
    fn repositories_of_lazy_layers(&self) -> HashSet<Repository> {
        let state = self.store.state();
        let layers = state.layers.values().filter(|layer| layer.is_lazy());
        layers
            .flat_map(|layer| references_of(&state, &layer.key, None))
            .map(|reference| reference.repository().clone())
            .collect()
    }

    /// Returns the registries that may have a layer: first those of the image being read, then those of its other
    /// images, then the one of the first pull.
    async fn remotes_of(&self, key: &Digest, reader: Option<Digest>) -> Result<Vec<Arc<Remote>>> {
        let references = references_of(&self.store.state(), key, reader.as_ref());
        let mut seen: Vec<Repository> = Vec::new();
        for reference in references {
            if !seen.contains(reference.repository()) {
                seen.push(reference.repository().clone());
            }
        }
        self.sources.of(&seen).await
    }

    /// Makes a complete layer an ordinary one. Returns false if the layer is incomplete or still in use.
    async fn promote(self: &Arc<Self>, key: &Digest) -> Result<bool> {
        if !self.is_all_here(key).await? {
            return Ok(false);
        }
        let Some(layer) = self.take_alone(key).await else {
            return Ok(!self.layers.lock().contains_key(key));
        };
        let (store, serving, key) = (Arc::clone(&self.store), Arc::clone(&self.serving), *key);
        let promoted = blocking(move || {
            let synced = layer.parts().sync();
            synced.map_err(|error| Error::io("writing a layer to disk", error))?;
            // The image can be sealed only if no file descriptor is open for writing.
            drop(layer);
            store.make_whole(&key)?;
            serving.remove(&key);
            serving.end_unless(|| store.may_be_read_lazily());
            Ok(true)
        });
        let promoted = promoted.await;
        self.room.notify_waiters();
        promoted
    }

    /// Stops the server if no lazy layer can be read any more.
    pub(crate) async fn end_when_idle(&self) {
        let (store, serving) = (Arc::clone(&self.store), Arc::clone(&self.serving));
        if !serving.is_running() {
            return;
        }
        let ended = blocking(move || {
            serving.end_unless(|| store.may_be_read_lazily());
            Ok(())
        });
        if let Err(error) = ended.await {
            tracing::debug!(%error, "cannot stop the lazy layer server");
        }
    }

    /// Removes a layer from the list if it has no other user. Waits a short time for the last fetch to release it.
    async fn take_alone(&self, key: &Digest) -> Option<Layer> {
        for _ in 0..HAND_TRIES {
            {
                let mut layers = self.layers.lock();
                let layer = layers.remove(key)?;
                match Arc::try_unwrap(layer) {
                    Ok(layer) => return Some(layer),
                    Err(shared) => drop(layers.insert(*key, shared)),
                }
            }
            tokio::time::sleep(HAND_PAUSE).await;
        }
        None
    }

    /// Drops the layer's contents from memory when it is idle or too many layers are cached.
    fn let_rest(&self, layer: &Arc<Layer>) {
        if let Some(watch) = layer.rest_when_idle() {
            self.spawn(watch);
        }
        let mut used = self.used.lock();
        used.retain(|other| {
            other
                .upgrade()
                .is_some_and(|other| !Arc::ptr_eq(&other, layer))
        });
        used.push_back(Arc::downgrade(layer));
        while used.len() > MOST_KEPT {
            let oldest = used.pop_front().and_then(|oldest| oldest.upgrade());
            if let Some(oldest) = oldest {
                oldest.let_go();
            }
        }
    }

    fn lazy_records(&self) -> Vec<LayerRecord> {
        let state = self.store.state();
        let layers = state.layers.values();
        let lazy = layers.filter(|record| record.is_lazy());
        lazy.cloned().collect()
    }

    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let cancel = self.cancel.clone();
        self.tasks.spawn(async move {
            let _ = cancel.run_until_cancelled(work).await;
        });
    }
}

/// Returns the references to fetch a layer by: those of the image being read, then of its other images, then the one
/// of the first pull.
fn references_of(state: &State, key: &Digest, reader: Option<&Digest>) -> Vec<Reference> {
    let first = match state.layers.get(key).map(|record| &record.form) {
        Some(Form::Lazy(lazy)) => Some(&lazy.repository),
        _ => None,
    };
    let images = state.images.iter();
    let mut images: Vec<_> = images
        .filter(|(_, image)| image.layers.contains(key))
        .collect();
    images.sort_by_key(|(id, _)| Some(*id) != reader);
    let names = images
        .into_iter()
        .flat_map(|(_, image)| image.digests.iter().chain(&image.tags));
    let all = names.chain(first);
    all.filter_map(|name| name.parse().ok()).collect()
}

/// Handles each event of the server in its own task.
async fn dispatch(lazies: Weak<Lazies>, mut told: mpsc::UnboundedReceiver<Told>) {
    while let Some((event, answers)) = told.recv().await {
        let Some(lazies) = lazies.upgrade() else {
            return;
        };
        match event {
            Event::Fetch(fetch) => {
                let answering = Arc::clone(&lazies).answer(fetch, answers);
                lazies.spawn(answering);
            }
            Event::ReadFailed(failed) => lazies.failures.note(&lazies.store, &failed),
        }
    }
}
