//! Pulls one layer: finds it in the store, or downloads, unpacks and publishes it.
//!
//! ```text
//! look ──found──────────────────────────────────────────► key
//!   └─missing─► lock blob ─► download + unpack ─► publish ─► key
//!                                └─ has undescribed directories: look at the layers below ─┘
//! ```

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::pin::pin;
use std::sync::{Arc, LazyLock};
use std::thread::available_parallelism;

use orlop_encryption::Options;
use orlop_pool::{Place, most_of};
use rustix::fs::OFlags;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use super::allowance::{Allowance, Spent};
use super::context::Context;
use super::download::download;
use super::ingest::{Ingest, IngestReader, Unpacking};
use super::lazy_layer::Lazily;
use super::progress::{LayerState, LayerTracker};
use crate::blocking::blocking;
use crate::clock::now;
use crate::manifest::Descriptor;
use crate::media_type::{self, Kind};
use crate::registry::Remote;
use crate::store::{
    FS, Form, Hold, IMAGE, Inherited, LayerRecord, Scratch, Sealed, StoreForm, TAPE, inherited,
};
use crate::tape::Recorder;
use crate::unpack::{
    AsIs, Layer, LayerMemory, Owner, Spending as _, Unpacked, open_beneath, pack, take, unpack,
};
use crate::{Digest, Error, Result, verity};

/// Threads that unpack layers during the download; they mostly wait for a registry. Each registry has a share of the
/// threads, and one pull cannot use the whole share.
static UNPACKING: LazyLock<Place> = LazyLock::new(|| {
    let share = available_parallelism().map_or(4, usize::from).clamp(4, 8);
    Place::new("unpacking layers", 16 * share, share, MOST_WAITING).with_pieces(most_of(share))
});
/// Maximum length of the queue, which is more than the images of many pods need.
const MOST_WAITING: usize = 100_000;

/// The source of a layer.
#[derive(Clone)]
pub(crate) enum Origin<'a> {
    Registry(&'a Remote),
    /// A file below a directory.
    File {
        dir: Arc<OwnedFd>,
        path: Vec<u8>,
        /// Whether the file's bytes have the descriptor's digest.
        named: bool,
    },
}

impl Origin<'_> {
    /// Returns the registry domain, or an empty string for a file.
    fn source(&self) -> &str {
        match self {
            Self::Registry(remote) => remote.domain(),
            Self::File { .. } => "",
        }
    }
}

/// Inputs for the pull of one layer.
pub(super) struct LayerJob<'a> {
    pub(super) what: String,
    pub(super) origin: Origin<'a>,
    pub(super) blob: Descriptor,
    /// Key of the layer, unless its content depends on the layers below.
    pub(super) name: Digest,
    /// Expected digest of its archive, if there is one.
    pub(super) diff_id: Option<Digest>,
    /// Decryption options, if it is encrypted.
    pub(super) secret: Option<Arc<Options>>,
    /// Path and mode for a blob that is stored as a single file instead of an archive.
    pub(super) file: Option<(String, u32)>,
    pub(super) chain_id: Digest,
    /// Keys of the layers below, base first, once they are known.
    pub(super) below: Vec<watch::Receiver<Option<Digest>>>,
    /// Number of its pull, for the pull's share of the threads.
    pub(super) pull: u64,
    /// Size allowance of the whole image.
    pub(super) allowance: Arc<Allowance>,
    /// How to pull it lazily, if that is possible.
    pub(super) lazily: Option<Lazily>,
    /// Holds that protect the layer's possible keys from garbage collection.
    pub(super) _holds: Vec<Hold>,
    pub(super) tracker: Arc<LayerTracker>,
    /// Tracker of disk use before publication, even if no client waits any more.
    pub(super) at_work: TaskTracker,
}

enum Look {
    Found(Digest),
    /// A stored layer has this key. It fits if the layers below give these directories no attributes.
    Depends(Digest, Vec<Vec<u8>>),
    Missing,
}

impl LayerJob<'_> {
    /// Pulls the layer into the store and returns its key.
    pub(super) async fn run(&self, context: &Context) -> Result<Digest> {
        loop {
            let mut misfit = false;
            match self.look(context) {
                Look::Found(key) => return self.present(context, key),
                Look::Depends(key, implicit) => {
                    if self.inherited(context, implicit).await?.is_empty() {
                        return self.present(context, key);
                    }
                    misfit = true;
                }
                Look::Missing => {}
            }
            let source = self.origin.source();
            let lock = context.blob_locks.lock(self.blob.digest, source).await;
            match self.look(context) {
                Look::Found(key) => return self.present(context, key),
                // Another pull published it meanwhile. The layers below may themselves wait for this lock.
                Look::Depends(..) if !misfit => continue,
                _ => {}
            }
            if let (Origin::Registry(remote), Some(lazily)) = (&self.origin, &self.lazily)
                && lazily.may_begin
                && let Some(key) = self.begin(context, remote, lazily).await?
            {
                return Ok(key);
            }
            let fetched = match &self.origin {
                Origin::Registry(remote) => self.fetch(context, remote).await?,
                Origin::File { dir, path, named } => {
                    let (dir, path) = (Arc::clone(dir), path.clone());
                    let blob = named.then_some(self.blob.digest);
                    self.tracker.enter(LayerState::Unpacking);
                    let open = move || {
                        open_beneath(&*dir, &path, OFlags::RDONLY | OFlags::CLOEXEC)
                            .map(File::from)
                            .map_err(|error| {
                                let path = String::from_utf8_lossy(&path);
                                Error::io(format!("opening {path:?} to import it"), error.into())
                            })
                    };
                    let memory = LayerMemory::new(self.owner(), None);
                    self.unpack(context, blob, memory, open, || {}).await?
                }
            };
            let key = if fetched.unpacked.implicit.is_empty() || self.below.is_empty() {
                let published = self.publish(context, fetched, self.name).await;
                drop(lock);
                published?
            } else {
                drop(lock);
                let implicit = fetched.unpacked.implicit.clone();
                let looks = self.inherited(context, implicit).await?;
                if looks.is_empty() {
                    self.publish(context, fetched, self.name).await?
                } else {
                    // The layer then fits only above exactly these layers.
                    let fetched = blocking(move || fetched.dressed(&looks)).await?;
                    self.publish(context, fetched, self.chain_id).await?
                }
            };
            self.tracker.enter(LayerState::Done);
            return Ok(key);
        }
    }

    /// Charges a stored layer to the allowance like a new one. Otherwise a refused image could get in layer by layer.
    fn present(&self, context: &Context, key: Digest) -> Result<Digest> {
        let bytes = {
            let state = context.store.state();
            state.layers.get(&key).map_or(0, |record| record.bytes)
        };
        let spent = self.allowance.for_layer();
        spent.spend(bytes)?;
        spent.keep();
        self.tracker.enter(LayerState::Present);
        Ok(key)
    }

    /// Returns the possible keys of the layer: its own key before the one above certain layers. The keys of the
    /// ordinary form precede those of the lazy form, which may be incomplete.
    pub(super) fn names(&self) -> impl Iterator<Item = Digest> {
        self.pairs()
            .into_iter()
            .flatten()
            .flat_map(|(own, above)| [own, above])
    }

    fn pairs(&self) -> [Option<(Digest, Digest)>; 2] {
        let lazily = self.lazily.as_ref();
        let lazily = lazily.map(|lazily| (lazily.key, lazily.above(&self.chain_id)));
        [Some((self.name, self.chain_id)), lazily]
    }

    /// Returns whether to pull it lazily if it is not stored.
    pub(super) fn is_to_be_begun(&self) -> bool {
        self.lazily.as_ref().is_some_and(|lazily| lazily.may_begin)
    }

    fn look(&self, context: &Context) -> Look {
        let state = context.store.state();
        let mut depends = None;
        // The promised digest of an archive may be the key of a different layer.
        let fits = |record: &&LayerRecord| self.diff_id.is_none_or(|it| it == record.diff_id);
        for (own, above) in self.pairs().into_iter().flatten() {
            if above != own && state.layers.get(&above).is_some_and(|record| fits(&record)) {
                return Look::Found(above);
            }
            match state.layers.get(&own).filter(fits) {
                None => {}
                Some(record) if record.implicit.is_empty() || self.below.is_empty() => {
                    return Look::Found(own);
                }
                Some(record) => {
                    depends.get_or_insert_with(|| Look::Depends(own, record.implicit.clone()));
                }
            }
        }
        depends.unwrap_or(Look::Missing)
    }

    /// Returns the attributes that the layers below give these directories.
    pub(super) async fn inherited(
        &self,
        context: &Context,
        implicit: Vec<Vec<u8>>,
    ) -> Result<Vec<Inherited>> {
        let mut keys = Vec::with_capacity(self.below.len());
        for below in &self.below {
            let key = *below
                .clone()
                .wait_for(Option::is_some)
                .await
                .map_err(|_| Error::Cancelled(format!("unpacking {}", self.what)))?;
            keys.extend(key);
        }
        let lower = context.lazies.lower_dirs(keys).await?;
        blocking(move || inherited(&implicit, &lower)).await
    }

    /// Downloads and unpacks the layer. Resumes an earlier attempt; if that data is damaged, downloads everything
    /// again.
    async fn fetch(&self, context: &Context, remote: &Remote) -> Result<Fetched> {
        loop {
            let (store, blob) = (Arc::clone(&context.store), self.blob.clone());
            let received = Arc::clone(&self.tracker.downloaded);
            let source = remote.domain().to_owned();
            let open = move || {
                let layout = store.layout();
                Ingest::open(layout, &blob.digest, &source, blob.size, received)
            };
            let ingest = blocking(open).await?;
            let ingest = Arc::new(ingest);
            let resumed = ingest.resumed() > 0;
            let fetched = self.stream(context, remote, &ingest).await;
            match &fetched {
                Ok(_) if context.config.keep_blobs => {
                    let target = context.store.layout().blob(&self.blob.digest);
                    blocking(move || ingest.keep(&target)).await?;
                }
                // The next attempt can resume a download that the network interrupted.
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
                        "a resumed download is damaged; downloading it again"
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
    ) -> Result<Fetched> {
        let _abandon = Abandon(ingest);
        self.tracker.enter(LayerState::Downloading);
        let download = download(
            &self.what,
            remote,
            &self.blob,
            ingest,
            context.config.connections_per_blob,
        );
        let mut downloading = pin!(self.tracker.steps.during("download", download));
        let progress = Arc::clone(&self.tracker.unpacked);
        let download = Unpacking::new(Arc::clone(ingest), Arc::clone(&context.unpacks));
        let memory = LayerMemory::new(self.owner(), Some(Arc::clone(&download) as _));
        let counted = Arc::clone(&memory);
        let open = move || {
            let (download, memory) = (Arc::clone(&download), Arc::clone(&counted));
            Ok(IngestReader::new(download, memory, Arc::clone(&progress)))
        };
        let abandoned = Arc::clone(ingest);
        let blob = Some(self.blob.digest);
        let mut unpacking =
            pin!(self.unpack(context, blob, memory, open, move || abandoned.abandon()));
        let mut downloaded = false;
        loop {
            tokio::select! {
                done = &mut downloading, if !downloaded => {
                    // A failed download explains more than the failed unpack that it causes, unless the unpack caused
                    // it.
                    if !ingest.is_abandoned() {
                        done?;
                        self.tracker.enter(LayerState::Unpacking);
                    }
                    downloaded = true;
                }
                done = &mut unpacking => return done,
            }
        }
    }

    fn owner(&self) -> Owner {
        Owner {
            registry: self.origin.source().to_owned(),
            pull: self.pull,
        }
    }

    /// Unpacks the data from `open` on a separate thread. `abandon` makes the reader fail.
    async fn unpack<R: Read + Send>(
        &self,
        context: &Context,
        blob: Option<Digest>,
        memory: Arc<LayerMemory>,
        open: impl Fn() -> Result<R> + Send + 'static,
        abandon: impl Fn() + Sync + Send + 'static,
    ) -> Result<Fetched> {
        let (store, limits) = (Arc::clone(&context.store), context.config.limits.clone());
        let form = context.config.store;
        let kind = media_type::kind(&self.blob.media_type);
        let is_erofs = self.file.is_none() && kind == Kind::ErofsLayer;
        let what = self.what.clone();
        let (diff_id, secret) = (self.diff_id, self.secret.clone());
        let file = self.file.clone();
        let file = file.map(|(path, mode)| AsIs {
            path,
            mode,
            size: self.blob.size,
        });
        let at_work = self.at_work.token();
        let allowance = Arc::clone(&self.allowance);
        let attempt = move |memory: &Arc<LayerMemory>| -> Result<Fetched> {
            let scratch = store.layout().scratch("layer")?.counted(at_work.clone());
            let spent = allowance.for_layer();
            let abandon = || {
                if !memory.is_displaced() {
                    abandon();
                }
            };
            let layer = Layer {
                what: &what,
                blob,
                diff_id,
                secret: secret.as_deref(),
                file: file.as_ref(),
                abandon: &abandon,
                spending: &spent,
                memory,
            };
            let create = |path: &std::path::Path| {
                let options = File::options()
                    .read(true)
                    .write(true)
                    .create_new(true)
                    .open(path);
                options.map_err(|error| Error::at("creating", path, error))
            };
            if is_erofs {
                let mut file = create(&scratch.path().join(IMAGE))?;
                let unpacked = take(&layer, open()?, &mut file, &limits)?;
                return Ok(Fetched {
                    scratch,
                    unpacked,
                    written: Written::Taken,
                    replayable: false,
                    spent,
                });
            }
            let recorder = Recorder::create(&scratch.path().join(TAPE))?;
            let (unpacked, written, recorder) = match form {
                StoreForm::Files => {
                    let root = scratch.path().join(FS);
                    std::fs::DirBuilder::new()
                        .mode(0o755)
                        .create(&root)
                        .map_err(|error| Error::at("creating", &root, error))?;
                    let done = unpack(&layer, open()?, recorder, &root, &limits)?;
                    (done.0, Written::Files, done.1)
                }
                StoreForm::Erofs => {
                    let file = create(&scratch.path().join(IMAGE))?;
                    let done = pack(&layer, open()?, recorder, file, &limits)?;
                    (done.0, Written::Packing(Box::new(done.1)), done.2)
                }
            };
            let replayable = recorder.finish()?;
            let unpacked = with_bookkeeping(unpacked, &scratch)?;
            Ok(Fetched {
                scratch,
                unpacked,
                written,
                replayable,
                spent,
            })
        };
        let unpack = move || loop {
            let fetched = attempt(&memory);
            if fetched.is_ok() || !memory.is_to_start_again() {
                return fetched;
            }
        };
        let source = self.origin.source();
        let unpacking = async {
            let done = UNPACKING
                .run_for_piece(source, &self.pull.to_string(), unpack)
                .await;
            done.map_err(|refused| Error::store(format!("unpacking {}", self.what), refused))?
        };
        self.tracker.steps.during("unpack", unpacking).await
    }

    async fn publish(&self, context: &Context, fetched: Fetched, key: Digest) -> Result<Digest> {
        self.tracker.enter(LayerState::Publishing);
        let publish = self.put_in_store(context, fetched, key);
        self.tracker.steps.during("publish", publish).await
    }

    async fn put_in_store(
        &self,
        context: &Context,
        fetched: Fetched,
        key: Digest,
    ) -> Result<Digest> {
        let (fetched, form) = match fetched.written {
            Written::Files => (fetched, Form::Files),
            _ => blocking(move || fetched.sealed()).await?,
        };
        let Fetched {
            scratch,
            unpacked,
            replayable,
            spent,
            ..
        } = fetched;
        let kept = context.config.keep_blobs && matches!(self.origin, Origin::Registry(_));
        let blob = kept.then_some(self.blob.digest);
        let record = LayerRecord {
            key,
            diff_id: unpacked.diff_id.unwrap_or(self.name),
            archive_bytes: unpacked.archive_bytes,
            bytes: unpacked.bytes,
            disk_bytes: unpacked.disk_bytes + blob.map_or(0, |_| self.blob.size),
            inodes: unpacked.inodes + u64::from(blob.is_some()),
            implicit: unpacked.implicit,
            blob,
            replayable,
            created: now(),
            form,
        };
        context.store.publish(scratch, record).await?;
        spent.keep();
        Ok(key)
    }
}

/// Adds the disk space of the layer's directory, its tape and its record.
fn with_bookkeeping(unpacked: Unpacked, scratch: &Scratch) -> Result<Unpacked> {
    const BLOCK: u64 = 4096;
    let tape = scratch.path().join(TAPE);
    let look = std::fs::metadata(&tape).map_err(|error| Error::at("checking", &tape, error))?;
    Ok(Unpacked {
        disk_bytes: unpacked.disk_bytes + look.len().next_multiple_of(BLOCK) + BLOCK,
        inodes: unpacked.inodes + 3,
        ..unpacked
    })
}

/// The form in which a layer is written.
enum Written {
    Files,
    /// As an image file that is not finished yet.
    Packing(Box<orlop_erofs::Image>),
    /// As the published file, unchanged.
    Taken,
}

/// A layer that is unpacked but not published.
struct Fetched {
    scratch: Scratch,
    unpacked: Unpacked,
    written: Written,
    /// Whether its archive can be reconstructed.
    replayable: bool,
    /// The share of the image's allowance that it uses.
    spent: Spent,
}

impl Fetched {
    /// Applies the attributes from the layers below to undescribed directories. Blocks.
    fn dressed(mut self, looks: &[Inherited]) -> Result<Self> {
        let root = self.scratch.path().join(FS);
        for look in looks {
            match &mut self.written {
                Written::Packing(image) => look.apply_to_image(image)?,
                Written::Files | Written::Taken => look.apply(&root)?,
            }
        }
        self.unpacked.implicit.clear();
        Ok(self)
    }

    /// Finishes the image file, if there is one, and seals it with fs-verity if possible. Returns the layer's form.
    /// Blocks.
    fn sealed(mut self) -> Result<(Self, Form)> {
        let path = self.scratch.path().join(IMAGE);
        let (bytes, digest) = match std::mem::replace(&mut self.written, Written::Taken) {
            Written::Files => return Ok((self, Form::Files)),
            Written::Taken => (self.unpacked.archive_bytes, self.unpacked.diff_id),
            Written::Packing(image) => {
                let summary = image.finish().map_err(|error| match error {
                    orlop_erofs::Error::Write(error) => Error::at("writing", &path, error),
                    error => Error::store(format!("finishing {}", path.display()), error),
                })?;
                (summary.bytes, None)
            }
        };
        self.unpacked.disk_bytes += bytes;
        // Sealing requires that no file descriptor is open for writing.
        let file = File::open(&path).map_err(|error| Error::at("opening", &path, error))?;
        let verity = verity::seal(&file).map_err(|error| Error::at("sealing", &path, error))?;
        let sealed = Sealed {
            bytes,
            verity,
            digest,
        };
        Ok((self, Form::Erofs(sealed)))
    }
}

/// Guard that abandons the ingest if the work is dropped early.
struct Abandon<'a>(&'a Ingest);

impl Drop for Abandon<'_> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}
