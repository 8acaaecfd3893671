//! One layer of a pull: found here, or downloaded and unpacked at once, then published.
//!
//! ```text
//! look ──found──────────────────────────────────────────► key
//!   └─missing─► lock blob ─► download + unpack ─► publish ─► key
//!                                └─ has undescribed directories: look at the layers below ─┘
//! ```

use std::collections::{HashMap, HashSet};
use std::os::unix::fs::DirBuilderExt;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use super::download::download;
use super::ingest::{Ingest, IngestReader};
use super::progress::{LayerState, LayerTracker};
use super::task::Context;
use crate::manifest::Descriptor;
use crate::registry::Remote;
use crate::store::{Hold, LayerRecord, Scratch, inherited, now};
use crate::unpack::{Layer, Unpacked, unpack};
use crate::{Digest, Error, Result};

/// Blobs that are being fetched. Each is fetched once, whoever wants it.
#[derive(Default)]
pub(crate) struct BlobLocks(Mutex<HashMap<Digest, Arc<tokio::sync::Mutex<()>>>>);

impl BlobLocks {
    async fn lock(&self, digest: Digest) -> tokio::sync::OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            locks.retain(|_, lock| Arc::strong_count(lock) > 1);
            Arc::clone(locks.entry(digest).or_default())
        };
        lock.lock_owned().await
    }

    /// The blobs that somebody fetches now.
    pub(crate) fn in_use(&self) -> HashSet<Digest> {
        let locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        locks
            .iter()
            .filter(|(_, lock)| Arc::strong_count(lock) > 1)
            .map(|(digest, _)| *digest)
            .collect()
    }
}

/// What a layer's work needs to know.
pub(super) struct LayerJob {
    pub(super) what: String,
    pub(super) blob: Descriptor,
    pub(super) diff_id: Digest,
    pub(super) chain_id: Digest,
    /// The keys of the layers below, base first, when they are known.
    pub(super) below: Vec<watch::Receiver<Option<Digest>>>,
    /// Keeps both names that the layer may get from being swept.
    pub(super) _holds: [Hold; 2],
    pub(super) tracker: Arc<LayerTracker>,
}

enum Look {
    Found(Digest),
    /// It is here, and fits if the layers below leave these directories plain.
    Depends(Vec<Vec<u8>>),
    Missing,
}

impl LayerJob {
    /// Gets the layer into the store and returns its key.
    pub(super) async fn run(&self, context: &Context, remote: &Remote) -> Result<Digest> {
        loop {
            let mut misfit = false;
            match self.look(context) {
                Look::Found(key) => return Ok(self.present(key)),
                Look::Depends(implicit) => {
                    if self.inherit(context, implicit, None).await? {
                        misfit = true;
                    } else {
                        return Ok(self.present(self.diff_id));
                    }
                }
                Look::Missing => {}
            }
            let lock = context.blob_locks.lock(self.blob.digest).await;
            match self.look(context) {
                Look::Found(key) => return Ok(self.present(key)),
                // Published meanwhile. The layers below may themselves wait for this lock.
                Look::Depends(_) if !misfit => continue,
                _ => {}
            }
            let (scratch, unpacked) = self.fetch(context, remote).await?;
            let key = if unpacked.implicit.is_empty() || self.below.is_empty() {
                let published = self.publish(context, scratch, unpacked, self.diff_id).await;
                drop(lock);
                published?
            } else {
                drop(lock);
                let root = scratch.path().join("fs");
                if self
                    .inherit(context, unpacked.implicit.clone(), Some(root))
                    .await?
                {
                    // It now looks as it must above these layers, and only these.
                    let unpacked = Unpacked {
                        implicit: Vec::new(),
                        ..unpacked
                    };
                    self.publish(context, scratch, unpacked, self.chain_id)
                        .await?
                } else {
                    self.publish(context, scratch, unpacked, self.diff_id)
                        .await?
                }
            };
            self.tracker.enter(LayerState::Done);
            return Ok(key);
        }
    }

    fn present(&self, key: Digest) -> Digest {
        self.tracker.enter(LayerState::Present);
        key
    }

    fn look(&self, context: &Context) -> Look {
        let state = context.store.state();
        if self.chain_id != self.diff_id && state.layers.contains_key(&self.chain_id) {
            return Look::Found(self.chain_id);
        }
        match state.layers.get(&self.diff_id) {
            None => Look::Missing,
            Some(record) if record.implicit.is_empty() || self.below.is_empty() => {
                Look::Found(self.diff_id)
            }
            Some(record) => Look::Depends(record.implicit.clone()),
        }
    }

    /// Whether the layers below have something to say about these directories; if so, and
    /// there is a `root`, does as they say.
    async fn inherit(
        &self,
        context: &Context,
        implicit: Vec<Vec<u8>>,
        root: Option<std::path::PathBuf>,
    ) -> Result<bool> {
        let mut keys = Vec::with_capacity(self.below.len());
        for below in &self.below {
            let key = *below
                .clone()
                .wait_for(Option::is_some)
                .await
                .map_err(|_| Error::Cancelled(format!("unpacking {}", self.what)))?;
            keys.extend(key);
        }
        let lower = context.store.lower_dirs(&keys);
        blocking(move || {
            let found = inherited(&implicit, &lower)?;
            if let Some(root) = root {
                found
                    .iter()
                    .try_for_each(|directory| directory.apply(&root))?;
            }
            Ok(!found.is_empty())
        })
        .await
    }

    /// Downloads and unpacks. What an earlier try left is used; if it proves damaged, it is
    /// thrown away and all is fetched anew.
    async fn fetch(&self, context: &Context, remote: &Remote) -> Result<(Scratch, Unpacked)> {
        loop {
            let (store, blob) = (Arc::clone(&context.store), self.blob.clone());
            let received = Arc::clone(&self.tracker.downloaded);
            let ingest =
                blocking(move || Ingest::open(store.layout(), &blob.digest, blob.size, received))
                    .await?;
            let ingest = Arc::new(ingest);
            let resumed = ingest.resumed() > 0;
            let fetched = self.stream(context, remote, &ingest).await;
            match &fetched {
                Ok(_) if context.config.keep_blobs => {
                    let target = context.store.layout().blob(&self.blob.digest);
                    blocking(move || ingest.keep(&target)).await?;
                }
                // What the network owes is worth keeping for the next try.
                Err(Error::RegistryUnavailable { .. } | Error::Cancelled(_)) => {}
                _ => {
                    blocking(move || {
                        ingest.discard();
                        Ok(())
                    })
                    .await?;
                }
            }
            match fetched {
                Err(Error::DigestMismatch { .. } | Error::InvalidImage { .. }) if resumed => {
                    tracing::info!(
                        what = self.what,
                        "a resumed download is damaged; fetching it anew"
                    );
                }
                other => return other,
            }
        }
    }

    /// Downloads into the ingest and unpacks from it at the same time.
    async fn stream(
        &self,
        context: &Context,
        remote: &Remote,
        ingest: &Arc<Ingest>,
    ) -> Result<(Scratch, Unpacked)> {
        let _abandon = Abandon(ingest);
        self.tracker.enter(LayerState::Downloading);
        let mut downloading = pin!(download(
            &self.what,
            remote,
            &self.blob,
            ingest,
            context.config.connections_per_blob
        ));
        let mut unpacking = pin!(self.unpack(context, ingest));
        let mut downloaded = false;
        loop {
            tokio::select! {
                done = &mut downloading, if !downloaded => {
                    // Without the bytes, what unpacking has to say is of no interest.
                    done?;
                    downloaded = true;
                    self.tracker.enter(LayerState::Unpacking);
                }
                done = &mut unpacking => return done,
            }
        }
    }

    async fn unpack(&self, context: &Context, ingest: &Arc<Ingest>) -> Result<(Scratch, Unpacked)> {
        let permit = Arc::clone(&context.unpacks)
            .acquire_owned()
            .await
            .map_err(|_| Error::Cancelled(format!("unpacking {}", self.what)))?;
        let reader = IngestReader::new(Arc::clone(ingest), Arc::clone(&self.tracker.unpacked));
        let (store, limits) = (Arc::clone(&context.store), context.config.limits.clone());
        let (what, blob, diff_id) = (self.what.clone(), self.blob.digest, self.diff_id);
        let ingest = Arc::clone(ingest);
        blocking(move || {
            let _permit = permit;
            let scratch = store.layout().scratch("layer")?;
            let root = scratch.path().join("fs");
            std::fs::DirBuilder::new()
                .mode(0o755)
                .create(&root)
                .map_err(|error| Error::at("creating", &root, error))?;
            let abandon = || ingest.abandon();
            let layer = Layer {
                what: &what,
                blob: Some(blob),
                diff_id,
                abandon: &abandon,
            };
            let (unpacked, ()) = unpack(&layer, reader, (), &root, &limits)?;
            Ok((scratch, unpacked))
        })
        .await
    }

    async fn publish(
        &self,
        context: &Context,
        scratch: Scratch,
        unpacked: Unpacked,
        key: Digest,
    ) -> Result<Digest> {
        self.tracker.enter(LayerState::Publishing);
        let record = LayerRecord {
            key,
            diff_id: self.diff_id,
            bytes: unpacked.bytes,
            disk_bytes: unpacked.disk_bytes,
            inodes: unpacked.inodes,
            implicit: unpacked.implicit,
            replayable: false,
            created: now(),
        };
        context.store.publish(scratch, record).await?;
        Ok(key)
    }
}

/// Ends reader and writers when the work is dropped in the middle.
struct Abandon<'a>(&'a Ingest);

impl Drop for Abandon<'_> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

/// Runs disk work off the reactor.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| Error::Cancelled("disk work".to_owned()))?
}
