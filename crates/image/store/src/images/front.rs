//! The public handle of the image store.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use parking_lot::RwLock;
use tokio::sync::broadcast;

use super::find::find;
use super::image::Image;
use crate::admission::{PullRequest, Request, Wait, asked};
use crate::artifact::Artifact;
use crate::blocking::blocking;
use crate::lazy::{Here, Lazies, LazyCounts, ReadFailure};
use crate::pull::{self, Context, Flights, PullProgress};
use crate::registries::names_here;
use crate::registry::Transport;
use crate::rootfs::OverlayMount;
use crate::store::{self, Freed, ImageRecord, LayerRecord, Soundness, State, Store};
use crate::turns::Turns;
use crate::unpack::MEMORY_BUDGET;
use crate::verify::{self, BrokenLayer, UnlabelledLayer, Verified};
use crate::{Config, Digest, Error, ImageConfig, PolicyFor, PullStep, Result};

/// Maximum time that [`Images::close`] waits for threads, which may be blocked by a slow disk.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(30);
/// Number of references to the store when no work is running: the images, the pulls and the lazy layers.
const HANDLES: usize = 3;

/// The images of a node. Clones share the store.
#[derive(Clone)]
pub struct Images {
    inner: Arc<Inner>,
}

struct Inner {
    /// The current context. Running work keeps the context it started with.
    context: RwLock<Arc<Context>>,
    store: Arc<Store>,
    lazies: Arc<Lazies>,
    flights: Flights,
    configs: Arc<RwLock<HashMap<Digest, Arc<ImageConfig>>>>,
}

/// Disk usage of the images.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FsUsage {
    /// The image root.
    pub mountpoint: PathBuf,
    /// Bytes on disk.
    pub used_bytes: u64,
    /// Number of inodes.
    pub inodes_used: u64,
}

impl Images {
    /// Opens the store, repairs it after an unclean stop, and reads its index. Only one process can open it; others
    /// get [`Error::Busy`].
    pub async fn open(config: Config) -> Result<Self> {
        let (root, grace, form) = (config.root.clone(), config.orphan_grace, config.store);
        let label = config.label.clone();
        let (store, configs) = blocking(move || {
            store::check(form)?;
            let store = Store::open(&root, label)?;
            let configs = load_configs(&store)?;
            store.update_and_sweep(grace, |_, _| Ok(()))?;
            store.sweep_ingest(grace, &HashSet::new())?;
            store.sweep_replaced()?;
            Ok((store, configs))
        })
        .await?;
        MEMORY_BUDGET.set_total(config.unpack_memory);
        let flights = Flights::new(config.abandon_after);
        let admission = config.admission();
        let transport = Arc::new(Transport::new(&admission.registry));
        let store = Arc::new(store);
        let lazies = Lazies::new(config.lazy.clone(), admission.registry.clone(), &store);
        lazies.resume().await?;
        let context = Context {
            transport,
            unpacks: Turns::new(config.max_unpacks),
            blob_locks: Arc::default(),
            store: Arc::clone(&store),
            lazies: Arc::clone(&lazies),
            admission,
            config,
        };
        Ok(Self {
            inner: Arc::new(Inner {
                context: RwLock::new(Arc::new(context)),
                store,
                lazies,
                flights,
                configs: Arc::new(RwLock::new(configs)),
            }),
        })
    }

    /// Applies a new configuration to all new work. The root directory, the limit of parallel unpacks and the server
    /// of lazy layers do not change.
    pub async fn reconfigure(&self, config: Config) {
        let old = self.context();
        let config = Config {
            root: old.config.root.clone(),
            max_unpacks: old.config.max_unpacks,
            ..config
        };
        let admission = config.admission();
        let transport = if Transport::is_alike(&old.admission.registry, &admission.registry) {
            Arc::clone(&old.transport)
        } else {
            Arc::new(Transport::new(&admission.registry))
        };
        MEMORY_BUDGET.set_total(config.unpack_memory);
        self.inner.flights.set_alone(config.abandon_after);
        let (lazy, registry) = (config.lazy.clone(), admission.registry.clone());
        self.lazies().reconfigure(lazy, registry).await;
        let context = Context {
            transport,
            unpacks: Arc::clone(&old.unpacks),
            blob_locks: Arc::clone(&old.blob_locks),
            store: Arc::clone(&old.store),
            lazies: Arc::clone(&old.lazies),
            admission,
            config,
        };
        *self.inner.context.write() = Arc::new(context);
    }

    /// Pulls an image. Joins a running pull of the same image with the same credentials. If the returned future is
    /// dropped, the pull continues for [`Config::abandon_after`].
    pub async fn pull(&self, request: PullRequest) -> Result<Image> {
        self.pull_in_steps(request, std::future::pending()).await.0
    }

    /// Pulls an image like [`Images::pull`], and also returns the steps of the pull, even if it was joined or failed.
    /// When `left` completes, the caller no longer counts as a waiting client.
    pub async fn pull_in_steps(
        &self,
        request: PullRequest,
        left: impl Future<Output = ()>,
    ) -> (Result<Image>, Vec<PullStep>) {
        let mut asked = match asked(&self.context().admission, request).await {
            Ok(asked) => asked,
            Err(error) => return (Err(error), Vec::new()),
        };
        let (left, mut steps) = (left.shared(), Vec::new());
        while let Some(request) = asked.next() {
            let (pulled, done) = self.pull_one(request, left.clone()).await;
            steps.extend(done);
            match pulled.map_err(|error| asked.note(error)) {
                Ok(image) => return (Ok(image), steps),
                Err(Err(error)) => return (Err(error), steps),
                Err(Ok(())) => {}
            }
        }
        (Err(asked.failure()), steps)
    }

    async fn pull_one(
        &self,
        request: Request,
        left: impl Future<Output = ()>,
    ) -> (Result<Image>, Vec<PullStep>) {
        let name = request.reference.to_string();
        let (id, steps) = self
            .inner
            .flights
            .join(request, left, |request, tracker| {
                let context = self.context();
                let configs = Arc::clone(&self.inner.configs);
                async move {
                    let pulled = pull::pull(&context, request, &tracker).await;
                    // The lazy pull may have failed, or its layers may be complete already.
                    context.lazies.end_when_idle().await;
                    let (id, config) = pulled?;
                    let mut configs = configs.write();
                    configs.insert(id, Arc::new(config));
                    Ok(id)
                }
            })
            .await;
        // The image can be missing only if it was removed right after the pull.
        let image = id.and_then(|id| self.get(&id).ok_or(Error::NotFound(name)));
        (image, steps)
    }

    /// Returns the progress of all pulls in flight.
    pub fn pulls(&self) -> Vec<PullProgress> {
        self.inner.flights.progress()
    }

    /// Returns all images, ordered by id.
    pub fn list(&self) -> Vec<Image> {
        let state = self.store().state();
        state
            .images
            .values()
            .filter_map(|record| self.image(&state, record))
            .collect()
    }

    /// Returns the image with this id.
    pub fn get(&self, id: &Digest) -> Option<Image> {
        let state = self.store().state();
        state
            .images
            .get(id)
            .and_then(|record| self.image(&state, record))
    }

    /// Finds an image by id with or without `sha256:`, by unique id prefix, or by name with or without tag and
    /// digest. Short names are resolved with the current configuration. Returns `None` if there is no such image;
    /// [`Error::InvalidReference`] and [`Error::Ambiguous`] for an invalid or ambiguous `name`.
    pub async fn find(&self, name: &str) -> Result<Option<Image>> {
        let named = self.names_here(name).await?;
        let state = self.store().state();
        Ok(find(&state, name, &named)?.and_then(|record| self.image(&state, record)))
    }

    /// Removes the image that `name` refers to, with all its names. A missing image is no error. Leased layers stay
    /// until their lease is released.
    pub async fn remove(&self, name: &str) -> Result<Freed> {
        self.remove_for(name, None).await
    }

    /// Removes an image for the guests of one handler only, or for all containers of this node if the handler is
    /// empty. The image stays for the others.
    pub async fn remove_for(&self, name: &str, handler: Option<String>) -> Result<Freed> {
        let (store, name) = (Arc::clone(self.store()), name.to_owned());
        let configs = Arc::clone(&self.inner.configs);
        let grace = self.context().config.orphan_grace;
        let registries = self.context().config.registries.clone();
        let freed = blocking(move || {
            let named = names_here(&registries, &name)?;
            let (removed, freed) = store.update_and_sweep(grace, |state, change| {
                let Some(record) = find(state, &name, &named)? else {
                    return Ok(None);
                };
                let left = handler.and_then(|handler| without(record, &handler));
                let removed = left.is_none().then_some(record.id);
                change.images.push((record.id, left));
                Ok(removed)
            })?;
            if let Some(id) = removed {
                configs.write().remove(&id);
            }
            Ok(freed)
        })
        .await;
        self.lazies().end_when_idle().await;
        freed
    }

    /// Returns the directories of the image's layers while they are mounted, top first.
    pub fn layer_dirs(&self, image: &Digest) -> Result<Vec<PathBuf>> {
        let keys = self.layer_keys(image)?;
        Ok(self.store().dirs(&keys))
    }

    /// Returns the image's layers as lower directories for an overlay mount, top first; never empty. Also works for a
    /// removed image with a lease. Pulls damaged layers again.
    pub async fn layers(&self, image: &Digest) -> Result<Vec<PathBuf>> {
        self.lower_dirs(self.layer_keys(image)?).await
    }

    pub(crate) async fn lower_dirs(&self, keys: Vec<Digest>) -> Result<Vec<PathBuf>> {
        let mut dirs = if self.store().need_nothing(&keys) {
            self.store().dirs(&keys)
        } else {
            self.mounted(keys).await?
        };
        if dirs.is_empty() {
            dirs.push(self.store().layout().empty());
        }
        Ok(dirs)
    }

    fn layer_keys(&self, image: &Digest) -> Result<Vec<Digest>> {
        let state = self.store().state();
        layer_keys(&state, image).map(<[Digest]>::to_vec)
    }

    /// Mounts layers, and repairs damaged ones.
    async fn mounted(&self, keys: Vec<Digest>) -> Result<Vec<PathBuf>> {
        let mut repaired = HashSet::new();
        loop {
            let damaged = match self.lazies().lower_dirs(keys.clone()).await {
                Err(Error::Damaged { layer, reason }) if repaired.insert(layer) => {
                    tracing::warn!(%layer, reason, "a layer is damaged; pulling it again");
                    layer
                }
                done => return done,
            };
            let record = self.store().state().layers.get(&damaged).cloned();
            if let Some(record) = record {
                self.repair(&record, &self.images_with(&damaged)).await;
            }
        }
    }

    /// Downloads all lazy layers of an image and waits until they are complete.
    pub async fn fetch_rest(&self, image: &Digest) -> Result<()> {
        let keys = self.layer_keys(image)?;
        self.lazies().fetch_rest(&keys).await
    }

    /// Returns how much of an image is on disk, in bytes of its layers' files, or `None` if no layer is lazy.
    pub async fn here(&self, image: &Digest) -> Result<Option<Here>> {
        let keys = self.layer_keys(image)?;
        if !self.lazies().has_any() {
            return Ok(None);
        }
        let (lazies, store) = (Arc::clone(self.lazies()), Arc::clone(self.store()));
        blocking(move || {
            let mut is_lazy = false;
            let mut all = Here::default();
            for key in keys {
                let here = lazies.here(&key).inspect(|_| is_lazy = true);
                let state = store.state();
                let bytes = state.layers.get(&key).map_or(0, |record| record.bytes);
                let here = here.unwrap_or(Here { bytes, of: bytes });
                all.bytes += here.bytes;
                all.of += here.of;
            }
            Ok(is_lazy.then_some(all))
        })
        .await
    }

    /// Returns the counters of lazy layers since the start.
    pub fn lazy_counts(&self) -> LazyCounts {
        self.lazies().counts()
    }

    /// Sets the function that finds the image of a container by its id. Reads of lazy layers then prefer the
    /// registries of the container's image.
    pub fn find_images_by(
        &self,
        image_of: impl Fn(&str) -> Option<Digest> + Send + Sync + 'static,
    ) {
        self.lazies().find_images_by(Box::new(image_of));
    }

    /// Subscribes to failed reads of lazy layers.
    pub fn read_failures(&self) -> broadcast::Receiver<ReadFailure> {
        self.lazies().failures()
    }

    /// Pulls layers without an archive again, as ordinary layers.
    pub(crate) async fn with_archives(&self, image: &Digest) -> Result<()> {
        let is_lazy = {
            let state = self.store().state();
            let keys = layer_keys(&state, image)?;
            let layout = self.store().layout();
            keys.iter().any(|key| layout.layer_toc(key).exists())
        };
        if !is_lazy {
            return Ok(());
        }
        let found = self
            .get(image)
            .ok_or_else(|| Error::NotFound(image.to_string()))?;
        let mut last = Error::Unsupported(format!(
            "{image} was pulled lazily and has no name to pull it by, so its layer archives are not available"
        ));
        for reference in found.repo_digests {
            let request = PullRequest {
                reference,
                auth: None,
                policy: PolicyFor::Repair,
                handler: String::new(),
                wait: Wait::ForOrdinaryLayers,
            };
            match self.pull(request).await {
                Ok(_) => return Ok(()),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Mounts the image's filesystem read-only and detached. Lease the image while the mount is in use.
    pub async fn mount_read_only(&self, image: &Digest) -> Result<OwnedFd> {
        let lower = self.layers(image).await?;
        self.mount_lower(lower, None).await
    }

    pub(crate) async fn mount_lower(
        &self,
        mut lower: Vec<PathBuf>,
        label: Option<String>,
    ) -> Result<OwnedFd> {
        // An overlay without an upper directory needs two lower directories.
        lower.push(self.store().layout().empty());
        lower.dedup();
        if lower.len() == 1 {
            lower.push(self.store().layout().empty_too());
        }
        let overlay = OverlayMount {
            label,
            ..OverlayMount::read_only(lower)
        };
        blocking(move || overlay.mount()).await
    }

    /// Removes unused layers and partial downloads that are older than `older_than`.
    pub async fn gc(&self, older_than: Duration) -> Result<Freed> {
        let (store, context) = (Arc::clone(self.store()), self.context());
        blocking(move || {
            let ((), mut freed) = store.update_and_sweep(older_than, |_, _| Ok(()))?;
            freed.bytes += store.sweep_ingest(older_than, &context.blob_locks.in_use())?;
            Ok(freed)
        })
        .await
    }

    /// Returns what [`Images::gc`] without an age limit would free after the removal of these images. Removes
    /// nothing.
    pub async fn would_free(&self, images: &[Digest]) -> Result<Freed> {
        let (store, context) = (Arc::clone(self.store()), self.context());
        let images = images.to_vec();
        blocking(move || store.would_free(&images, &context.blob_locks.in_use())).await
    }

    /// Reads every file of every layer and compares it with its digest. With `repair`, pulls damaged layers again by
    /// one of their images' names, with the node's own credentials. A layer that cannot be pulled stays as it is.
    pub async fn verify(&self, repair: bool) -> Result<Verified> {
        let records = self.store().state().layers.values().cloned().collect();
        self.verify_layers(records, repair).await
    }

    /// Verifies the layers of these images like [`Images::verify`].
    pub async fn verify_images(&self, images: &[Digest], repair: bool) -> Result<Verified> {
        let mut records = BTreeMap::new();
        {
            let state = self.store().state();
            for image in images {
                let keys = layer_keys(&state, image)?;
                let layers = keys.iter().filter_map(|key| state.layers.get(key));
                records.extend(layers.map(|layer| (layer.key, layer.clone())));
            }
        }
        let records = records.into_values().collect();
        self.verify_layers(records, repair).await
    }

    async fn verify_layers(&self, records: Vec<LayerRecord>, repair: bool) -> Result<Verified> {
        let mut verified = Verified::default();
        for record in records {
            let (store, layer) = (Arc::clone(self.store()), record.clone());
            // Held, so that the layer is not removed while it is read.
            let hold = store.hold(layer.key);
            self.lazies().serve(&[layer.key]).await?;
            let verdict = blocking(move || Ok(verify::check(&store, &layer))).await?;
            drop(hold);
            match verdict {
                _ if !self.store().state().layers.contains_key(&record.key) => {}
                Soundness::Sound => verified.sound += 1,
                Soundness::Unchecked => verified.unchecked += 1,
                Soundness::Unlabelled(reason) => {
                    let images = self.images_with(&record.key);
                    verified.unlabelled.push(UnlabelledLayer {
                        diff_id: record.diff_id,
                        reason,
                        images: images.iter().map(|image| image.id).collect(),
                    });
                }
                Soundness::Broken(reason) => {
                    let images = self.images_with(&record.key);
                    let ids = images.iter().map(|image| image.id).collect();
                    let repaired = repair && self.repair(&record, &images).await;
                    let diff_id = record.diff_id;
                    verified.broken.push(BrokenLayer {
                        diff_id,
                        reason,
                        images: ids,
                        repaired,
                    });
                }
            }
        }
        Ok(verified)
    }

    /// Returns the disk usage of the images, from their records.
    pub fn fs_info(&self) -> FsUsage {
        let (state, layout) = (self.store().state(), self.store().layout());
        FsUsage {
            mountpoint: self.store().layout().root().to_owned(),
            used_bytes: state
                .layers
                .values()
                .map(|layer| layout.disk_bytes(layer))
                .sum(),
            inodes_used: state.layers.values().map(|layer| layer.inodes).sum(),
        }
    }

    /// Returns the image's configuration, byte for byte.
    pub async fn raw_config(&self, image: &Digest) -> Result<Vec<u8>> {
        self.document(*image, *image).await
    }

    /// Returns the image's manifest, byte for byte.
    pub async fn raw_manifest(&self, image: &Digest) -> Result<Vec<u8>> {
        let found = self
            .get(image)
            .ok_or_else(|| Error::NotFound(image.to_string()))?;
        self.document(*image, found.manifest).await
    }

    /// Cancels all pulls and waits until they and their threads have ended. Dropping the last handle closes the
    /// store.
    pub async fn close(&self) {
        self.inner.flights.close().await;
        self.lazies().close().await;
        // Threads stop at their next buffer, and nothing signals the end of the last one.
        let start = std::time::Instant::now();
        while Arc::strong_count(self.store()) > HANDLES && start.elapsed() < CLOSE_TIMEOUT {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        if Arc::strong_count(self.store()) <= HANDLES {
            let store = Arc::clone(self.store());
            // The only possible error is a panic.
            let _ = blocking(move || {
                store.close();
                Ok(())
            })
            .await;
        }
    }

    fn images_with(&self, layer: &Digest) -> Vec<Image> {
        let state = self.store().state();
        let using = state
            .images
            .values()
            .filter(|record| record.layers.contains(layer));
        using
            .filter_map(|record| self.image(&state, record))
            .collect()
    }

    /// Pulls a damaged layer again. Returns whether that succeeded.
    async fn repair(&self, layer: &LayerRecord, images: &[Image]) -> bool {
        let (store, key) = (Arc::clone(self.store()), layer.key);
        let taken = match blocking(move || store.take_out(key)).await {
            Ok(taken) => taken,
            Err(error) => {
                tracing::warn!(layer = %key, %error, "cannot remove a damaged layer");
                return false;
            }
        };
        for name in images.iter().flat_map(|image| &image.repo_digests) {
            let request = PullRequest {
                reference: name.clone(),
                auth: None,
                policy: PolicyFor::Repair,
                handler: String::new(),
                wait: Wait::ForNothing,
            };
            match self.pull(request).await {
                Ok(_) if self.store().state().layers.contains_key(&key) => {
                    let store = Arc::clone(self.store());
                    if let Err(error) = blocking(move || store.retire(taken, key)).await {
                        tracing::warn!(layer = %key, %error, "cannot keep the old files of a repaired layer; running containers lose them");
                    }
                    return true;
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(layer = %key, name, %error, "cannot pull a damaged layer again");
                }
            }
        }
        let (store, layer) = (Arc::clone(self.store()), layer.clone());
        if let Err(error) = blocking(move || store.put_back(taken, layer)).await {
            tracing::warn!(layer = %key, %error, "cannot restore a damaged layer");
        }
        false
    }

    async fn document(&self, image: Digest, digest: Digest) -> Result<Vec<u8>> {
        let store = Arc::clone(self.store());
        blocking(move || {
            let document = store.document(&digest)?;
            document
                .map(|d| d.bytes.to_vec())
                .ok_or_else(|| Error::NotFound(image.to_string()))
        })
        .await
    }

    fn image(&self, state: &State, record: &ImageRecord) -> Option<Image> {
        let configs = self.inner.configs.read();
        let config = Arc::clone(configs.get(&record.id)?);
        Some(Image::new(
            record,
            state,
            config,
            &self.context().config.pinned,
        ))
    }

    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.inner.store
    }

    pub(crate) fn lazies(&self) -> &Arc<Lazies> {
        &self.inner.lazies
    }

    pub(crate) fn context(&self) -> Arc<Context> {
        Arc::clone(&self.inner.context.read())
    }

    pub(crate) fn configs(&self) -> &RwLock<HashMap<Digest, Arc<ImageConfig>>> {
        &self.inner.configs
    }
}

/// Returns the image without a handler, or `None` if no handler is left.
fn without(image: &ImageRecord, handler: &str) -> Option<ImageRecord> {
    let mut left = image.clone();
    if !left.handlers.remove(handler) && handler.is_empty() {
        // The image is for guests only, and the caller names no handler.
        return None;
    }
    if !left.is_whole() {
        left.layers.clear();
    }
    (!left.handlers.is_empty()).then_some(left)
}

/// Returns the keys of an image's layers; none for an image that is only for guests.
fn layer_keys<'s>(state: &'s State, image: &Digest) -> Result<&'s [Digest]> {
    let record = state.images.get(image);
    let by_image = record.filter(|record| record.is_whole());
    let by_lease = || {
        let leases = state.leases.values();
        let of_image = leases.filter(|lease| lease.image == *image);
        of_image
            .map(|lease| &lease.layers)
            .max_by_key(|layers| layers.len())
    };
    by_image
        .map(|record| &record.layers)
        .or_else(by_lease)
        .or_else(|| record.map(|record| &record.layers))
        .map(Vec::as_slice)
        .ok_or_else(|| Error::NotFound(image.to_string()))
}

/// Reads the configurations of all images. Forgets images without a valid one.
fn load_configs(store: &Store) -> Result<HashMap<Digest, Arc<ImageConfig>>> {
    let images: Vec<_> = {
        let state = store.state();
        let images = state.images.values();
        images.map(|it| (it.id, it.is_artifact())).collect()
    };
    let mut configs = HashMap::new();
    let mut lost = Vec::new();
    for (id, is_artifact) in images {
        let parsed = store.document(&id)?.and_then(|document| {
            let what = id.to_string();
            let parsed = if is_artifact {
                Artifact::parse(&what, &document.bytes).map(ImageConfig::of_artifact)
            } else {
                ImageConfig::parse(&what, &document.bytes)
            };
            parsed.ok()
        });
        if let Some(config) = parsed {
            configs.insert(id, Arc::new(config));
        } else {
            tracing::warn!(image = %id, "removed an image whose configuration is missing; pull it again");
            lost.push((id, None));
        }
    }
    store.update(|_, change| {
        change.images = lost;
        Ok(())
    })?;
    Ok(configs)
}
