//! Layers that are mounted while they are fetched.
//!
//! ```text
//! pull: annotations ─► table of contents ─► image without content, published ─► container starts
//!                                                  ▲ write, mark
//! a read ─► orlop-lazy ─► [`Lazies::bring`] ─► ranges of the blob, verified chunk by chunk
//! nobody reads ──────────► [`rest`]: the same, a window at a time ─► whole: an ordinary EROFS layer
//! ```
//!
//! The table of contents is verified by the manifest, each chunk by the table of contents; the archive's own digest
//! nobody computes. So a lazy layer has a name of its own (`lazy_key`): an image whose manifest does not name this
//! very table of contents does not get it.

mod build;
mod demand;
mod failure;
mod fetch;
mod layer;
mod plan;
mod rest;
mod server;
mod settings;
mod verify;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use orlop_lazy::{Answers, Event, Fetch};
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, broadcast, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::demand::Demand;
use self::layer::Layer;
use self::rest::Budget;
use self::server::{Serving, Told};
use crate::blocking::blocking;
use crate::registry::{Credentials, Remote, Transport};
use crate::store::{Form, LayerRecord, Store};
use crate::{Config, Digest, Error, Reference, Repository, Result};

pub(crate) use build::{Described, build, describe};
pub use failure::{LazyCounts, ReadFailure};
pub(crate) use fetch::{Anything, Part, fetch};
pub(crate) use layer::TOC;
pub use settings::LazySettings;
pub(crate) use verify::check;

/// So many connections may stall before a read fails, each no shorter than this.
const STALLS: u32 = 3;
const SHORTEST_STALL: Duration = Duration::from_secs(1);
/// How much longer than a read a fetch for it goes on.
const GRACE: Duration = Duration::from_secs(1);
/// How long, and how often, who makes a layer an ordinary one waits for others to let go of it.
const HAND_TRIES: u32 = 200;
const HAND_PAUSE: Duration = Duration::from_millis(5);
/// So many repositories are remembered with what they were pulled with.
const MOST_REMEMBERED: usize = 256;

/// All lazy layers of a store.
pub(crate) struct Lazies {
    config: Config,
    store: Arc<Store>,
    transport: Arc<Transport>,
    serving: Arc<Serving>,
    layers: Mutex<HashMap<Digest, Arc<Layer>>>,
    /// What repositories were pulled with last.
    credentials: Mutex<HashMap<Repository, Option<Credentials>>>,
    remotes: tokio::sync::Mutex<HashMap<Repository, Arc<Remote>>>,
    demand: Demand,
    /// Told when a layer is gone, or is no lazy one any more.
    room: Notify,
    /// One layer at a time is fetched that nobody waits for.
    turn: Semaphore,
    budget: Budget,
    failures: failure::Failures,
    /// Bytes fetched.
    fetched: AtomicU64,
    tasks: TaskTracker,
    cancel: CancellationToken,
}

/// How much of something is here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Here {
    /// Bytes that are here.
    pub bytes: u64,
    /// Of so many.
    pub of: u64,
}

impl Lazies {
    pub(crate) fn new(config: &Config, store: &Arc<Store>) -> Arc<Self> {
        let mut config = config.clone();
        // A connection that stalls is given up while who reads still waits.
        let stalls = (config.lazy.timeout / STALLS).max(SHORTEST_STALL);
        config.progress_timeout = config.progress_timeout.min(stalls);
        let (tell, told) = mpsc::unbounded_channel();
        let lazies = Arc::new(Self {
            serving: Arc::new(Serving::new(&config.lazy, store.layout(), tell)),
            store: Arc::clone(store),
            // Of its own: pulls take no connections from who reads.
            transport: Arc::new(Transport::new(&config)),
            layers: Mutex::default(),
            credentials: Mutex::default(),
            remotes: tokio::sync::Mutex::default(),
            demand: Demand::default(),
            room: Notify::new(),
            turn: Semaphore::new(1),
            budget: Budget::new(config.lazy.bandwidth),
            failures: failure::Failures::default(),
            fetched: AtomicU64::new(0),
            tasks: TaskTracker::new(),
            cancel: CancellationToken::new(),
            config,
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

    /// Goes on with what an earlier process has begun.
    pub(crate) async fn resume(self: &Arc<Self>) -> Result<()> {
        let lazy = self.lazy_records();
        let (serving, store, keys) = (Arc::clone(&self.serving), Arc::clone(&self.store), {
            lazy.iter().map(|record| record.key).collect::<Vec<_>>()
        });
        blocking(move || {
            let found = serving.find().unwrap_or_else(|error| {
                let error = orlop_causes::with_causes(&error);
                tracing::warn!(error, "the server of lazy layers that runs is of no use; another takes its place");
                false
            });
            if found {
                for gone in serving.layers().iter().filter(|key| !keys.contains(key)) {
                    serving.remove(gone);
                }
                return Ok(());
            }
            // Nobody serves what was mounted, and what is not on the disk may have gone with the power.
            for key in &keys {
                let dir = store.layout().layer(key);
                let forgotten = orlop_lazy::Parts::open(&dir).and_then(|it| it.forget_unsynced());
                if let Err(error) = forgotten {
                    tracing::warn!(layer = %key, %error, "a lazy layer's parts cannot be looked at");
                }
            }
            store.unmount_lazy()
        })
        .await?;
        for record in lazy {
            if let Err(error) = self.open(&record).await {
                let error = orlop_causes::with_causes(&error);
                tracing::warn!(layer = %record.key, error, "a lazy layer cannot be fetched further");
            }
        }
        Ok(())
    }

    /// Ends all work. The server goes on where somebody may still read.
    pub(crate) async fn close(&self) {
        self.cancel.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        self.layers.lock().clear();
        self.remotes.lock().await.clear();
        let end = !self.store.may_be_read_lazily();
        let serving = Arc::clone(&self.serving);
        let closed = blocking(move || {
            serving.close(end);
            Ok(())
        });
        if let Err(error) = closed.await {
            tracing::debug!(%error, "closing lazy layers");
        }
    }

    /// Whether layers of a pull from there may be lazy.
    pub(crate) fn is_for(&self, repository: &Repository) -> bool {
        self.config.lazy.is_for(repository)
    }

    /// Whether there is a lazy layer.
    pub(crate) fn has_any(&self) -> bool {
        !self.layers.lock().is_empty()
    }

    /// Remembers by what a repository was read last.
    pub(crate) async fn note(&self, repository: &Repository, credentials: Option<&Credentials>) {
        let changed = {
            let mut known = self.credentials.lock();
            if known.len() >= MOST_REMEMBERED && !known.contains_key(repository) {
                known.clear();
            }
            let before = known.insert(repository.clone(), credentials.cloned());
            before.as_ref().map(Option::as_ref) != Some(credentials)
        };
        if changed {
            self.remotes.lock().await.remove(repository);
        }
    }

    /// Has the server ready before anything is begun.
    pub(crate) async fn prepare(&self) -> Result<()> {
        let serving = Arc::clone(&self.serving);
        blocking(move || serving.prepare()).await
    }

    /// Takes up a layer that was published.
    pub(crate) async fn begin(self: &Arc<Self>, key: &Digest) -> Result<()> {
        let record = self.store.state().layers.get(key).cloned();
        match record {
            Some(record) if matches!(record.form, Form::Lazy(_)) => self.open(&record).await,
            _ => Ok(()),
        }
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
        let layer = blocking(move || {
            let dir = store.layout().layer(&key);
            let layer = Layer::open(key, &dir, blob)?;
            serving.add(&key, &dir, bytes)?;
            Ok(layer)
        });
        let layer = Arc::new(layer.await?);
        self.let_rest(&layer);
        // Who pulls an image reads of it soon.
        self.demand.expected();
        let known = self.layers.lock().insert(key, Arc::clone(&layer));
        if known.is_none() {
            let lazies = Arc::clone(self);
            self.spawn(async move { lazies.rest(key).await });
        }
        Ok(())
    }

    /// Has those of these layers served that are lazy, so that they can be mounted.
    pub(crate) async fn serve(self: &Arc<Self>, keys: &[Digest]) -> Result<()> {
        let lazy: Vec<LayerRecord> = {
            let state = self.store.state();
            let records = keys.iter().filter_map(|key| state.layers.get(key));
            let lazy = records.filter(|record| matches!(record.form, Form::Lazy(_)));
            lazy.cloned().collect()
        };
        for record in lazy {
            self.open(&record).await?;
        }
        Ok(())
    }

    /// Forgets a layer that is removed. Blocks.
    pub(crate) fn forget(&self, key: &Digest) {
        self.layers.lock().remove(key);
        self.room.notify_waiters();
        self.serving.remove(key);
    }

    /// Gets all of these layers here, and waits for it.
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

    /// How much of a layer is here; nothing of those that are not lazy. Blocks.
    pub(crate) fn here(&self, key: &Digest) -> Option<Here> {
        let layer = self.layers.lock().get(key).cloned()?;
        let of = layer.parts().size();
        let missing = layer.parts().missing(0..of).ok()?;
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

    /// Reads that fail from now on.
    pub(crate) fn failures(&self) -> broadcast::Receiver<ReadFailure> {
        self.failures.subscribe()
    }

    /// Answers a read of what is not here.
    async fn answer(self: Arc<Self>, fetch: Fetch, answers: Answers) {
        let _wanted = self.demand.wanted();
        // Who reads is let go of a little earlier, by the server, which counts from the read on.
        let patience = self.config.lazy.timeout + GRACE;
        let brought = tokio::time::timeout(patience, self.bring(&fetch)).await;
        let answered = match brought {
            Ok(Ok(())) => answers.is_here(fetch.id),
            Ok(Err(error)) => answers.failed(fetch.id, &orlop_causes::with_causes(&error)),
            Err(_) => {
                let reason = format!("the registry served nothing of use in {patience:?}");
                answers.failed(fetch.id, &reason)
            }
        };
        if let Err(error) = answered {
            tracing::debug!(%error, "a fetch could not be answered; the server asks again");
        }
    }

    async fn bring(self: &Arc<Self>, fetch: &Fetch) -> Result<()> {
        let layer = Digest::from_hex(&fetch.key).ok();
        let layer = layer.and_then(|key| Some((key, self.layers.lock().get(&key).cloned()?)));
        let Some((key, layer)) = layer else {
            return Err(Error::NotFound(fetch.key.clone()));
        };
        let end = fetch.offset.saturating_add(fetch.length);
        let remotes = self.remotes_of(&key).await?;
        let fetched = layer.fetch(&remotes, fetch.offset..end).await?;
        self.let_rest(&layer);
        self.fetched.fetch_add(fetched, Ordering::Relaxed);
        Ok(())
    }

    /// The registries that may have a layer: where it was pulled from, and where else its images are from.
    async fn remotes_of(&self, key: &Digest) -> Result<Vec<Arc<Remote>>> {
        let mut repositories = Vec::new();
        {
            let state = self.store.state();
            if let Some(Form::Lazy(lazy)) = state.layers.get(key).map(|record| &record.form) {
                repositories.extend(lazy.repository.parse::<Reference>().ok());
            }
            let images = state
                .images
                .values()
                .filter(|image| image.layers.contains(key));
            let names = images.flat_map(|image| image.digests.iter().chain(&image.tags));
            repositories.extend(names.filter_map(|name| name.parse::<Reference>().ok()));
        }
        let mut remotes: Vec<Arc<Remote>> = Vec::new();
        let mut seen = Vec::new();
        for reference in repositories {
            let repository = reference.repository();
            if !seen.contains(repository) {
                seen.push(repository.clone());
                remotes.push(self.remote(repository).await?);
            }
        }
        Ok(remotes)
    }

    async fn remote(&self, repository: &Repository) -> Result<Arc<Remote>> {
        let mut remotes = self.remotes.lock().await;
        if let Some(remote) = remotes.get(repository) {
            return Ok(Arc::clone(remote));
        }
        let credentials = self.credentials.lock().get(repository).cloned().flatten();
        let remote = Remote::open(
            Arc::clone(&self.transport),
            &self.config,
            repository.clone(),
            credentials,
            crate::pull::next_number(),
        );
        let remote = Arc::new(remote.await?);
        if remotes.len() >= MOST_REMEMBERED {
            remotes.clear();
        }
        remotes.insert(repository.clone(), Arc::clone(&remote));
        Ok(remote)
    }

    /// Makes a layer that is whole an ordinary one. Whether that is done: not while somebody has it in hand.
    async fn promote(self: &Arc<Self>, key: &Digest) -> Result<bool> {
        let Some(layer) = self.take_alone(key).await else {
            return Ok(!self.layers.lock().contains_key(key));
        };
        let (store, serving, key) = (Arc::clone(&self.store), Arc::clone(&self.serving), *key);
        let promoted = blocking(move || {
            let synced = layer.parts().sync();
            synced.map_err(|error| Error::io("writing a layer to disk", error))?;
            // It is sealed when nobody has it open for writing.
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

    /// Ends the server when the last layer has gone that anybody may read by it.
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
            tracing::debug!(%error, "ending the server of lazy layers");
        }
    }

    /// Takes a layer off the list that nobody else has in hand. Who has fetched the last of it lets go of it soon.
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

    fn let_rest(&self, layer: &Arc<Layer>) {
        if let Some(watch) = layer.rest_when_idle() {
            self.spawn(watch);
        }
    }

    fn lazy_records(&self) -> Vec<LayerRecord> {
        let state = self.store.state();
        let layers = state.layers.values();
        let lazy = layers.filter(|record| matches!(record.form, Form::Lazy(_)));
        lazy.cloned().collect()
    }

    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let cancel = self.cancel.clone();
        self.tasks.spawn(async move {
            let _ = cancel.run_until_cancelled(work).await;
        });
    }
}

/// Hands what the server tells to work of its own.
async fn dispatch(lazies: std::sync::Weak<Lazies>, mut told: mpsc::UnboundedReceiver<Told>) {
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
