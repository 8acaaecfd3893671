//! The pull of one image, from its manifest to its record.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, maybe_done, try_join_all};
use orlop_encryption::Options;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::allowance::Allowance;
use super::context::Context;
use super::layer::{LayerJob, Origin};
use super::lazy_layer::{Lazily, soci_index};
use super::named::Named;
use super::progress::Tracker;
use crate::admission::{Request, Wait, admitted, beside, early, refuse_early};
use crate::artifact::Artifact;
use crate::blocking::blocking;
use crate::decryption;
use crate::document::Document;
use crate::manifest::Manifest;
use crate::media_type::{self, Kind};
use crate::registry::Remote;
use crate::store::is_known;
use crate::{Digest, Error, ImageConfig, Reference, Result, Selector};

/// Maximum wait for the remaining work of a failed pull, which still uses disk space.
const LAST_WORK: Duration = Duration::from_secs(10);

/// Pulls the image and records it. Returns its id and configuration.
pub(crate) async fn pull(
    context: &Context,
    request: Request,
    tracker: &Tracker,
) -> Result<(Digest, ImageConfig)> {
    let reference = &request.reference;
    let what = reference.to_string();
    let steps = &tracker.steps;
    refuse_early(&request).await?;
    let asker = context.asker();
    let resolving = asker.resolve(&request, tracker.number);
    let (remote, named) = steps.during("resolve", resolving).await?;
    let top = named.0;
    let mut early = maybe_done(early(&context.admission, &remote, &request, top).boxed());
    let found = asker.find_manifest(&remote, &what, named);
    let found = Box::pin(beside(found, &mut early));
    let (document, manifest, manifests) = steps.during("manifest", found).await?;
    // In parallel, because both wait for the registry. Layers are requested only after both succeed.
    let described = config(context, &remote, &what, (&document, &manifest));
    let described = steps.during("manifest", described);
    let admitted = admitted(
        &context.admission,
        &remote,
        &request,
        &manifests,
        &mut early,
    );
    let admitted = async {
        if context.config.policies.is_empty() {
            return admitted.await;
        }
        steps.during("signatures", admitted).await
    };
    let (config_document, evidence) = tokio::try_join!(described, admitted)?;
    let config = of_manifest(&what, &manifest, &config_document)?;
    let layers = if request.handler.is_empty() {
        check(context, &what, &manifest, &config)?;
        let keys = &context.config.keys;
        let secrets = keys.open(&what, &manifest, &request.keys).await?;
        let sources = vec![Origin::Registry(&remote); manifest.layers.len()];
        let ids = (config_document.digest, document.digest);
        let wanted = (&manifest, &config, ids);
        let lazily = lazily(context, &request, &remote, wanted).await;
        let sources = Sources {
            origins: sources,
            lazily,
            secrets,
        };
        fetch_layers(context, &what, (&manifest, &config), sources, tracker).await?
    } else {
        Vec::new()
    };
    if request.wait == Wait::ForAll {
        let rest = context.lazies.fetch_rest(&layers);
        steps.during("rest", rest).await?;
    }
    let id = config_document.digest;
    let repository = reference.repository().clone();
    let by_digest = Reference::new(repository, Selector::Digest(top));
    let names = vec![reference.clone(), by_digest];
    let store = Arc::clone(&context.store);
    let handler = request.handler.clone();
    let is_encrypted = manifest.is_encrypted();
    let proven = config.proven_names();
    let record = blocking(move || {
        Named {
            is_encrypted,
            proven,
            names,
            handler,
            layers,
            manifest: document,
            config: config_document,
            evidence,
        }
        .put(&store)
    });
    steps.during("record", record).await?;
    Ok((id, config))
}

/// Decides for each layer whether it can be pulled lazily.
async fn lazily(
    context: &Context,
    request: &Request,
    remote: &Remote,
    (manifest, config, ids): (&Manifest, &ImageConfig, (Digest, Digest)),
) -> Vec<Option<Lazily>> {
    let none = || vec![None; manifest.layers.len()];
    let repository = request.reference.repository();
    // Compressed layers can be kept only if they are downloaded completely.
    let is_whole = request.wait == Wait::ForOrdinaryLayers || context.config.keep_blobs;
    let is_no_image = config.module.is_some() || config.artifact.is_some();
    if is_whole || is_no_image || manifest.is_encrypted() {
        return none();
    }
    let is_wanted = context.lazies.is_for(repository);
    // Lazy layers that are already stored are used in any case.
    if !is_wanted && !context.lazies.has_any() {
        return none();
    }
    context
        .lazies
        .note(repository, &request.keyring, false)
        .await;
    let index = soci_index(remote, manifest).await;
    let layers = manifest.layers.iter().zip(&config.diff_ids);
    let may_begin = is_wanted && request.wait == Wait::ForNothing;
    let smallest = context.config.lazy.smallest;
    let lazily: Vec<Option<Lazily>> = layers
        .map(|(blob, diff_id)| {
            if media_type::kind(&blob.media_type) != Kind::Layer {
                return None;
            }
            let mut lazily = Lazily::of(blob, diff_id, index.as_ref())?;
            lazily.may_begin = may_begin && blob.size >= smallest;
            lazily.keyring.clone_from(&request.keyring);
            Some(lazily)
        })
        .collect();
    if claims_another(context, config, ids, &lazily) {
        tracing::info!(
            image = %request.reference,
            "another image with this configuration was pulled lazily; pulling this one completely"
        );
        return none();
    }
    lazily
}

/// Returns whether a stored image has this configuration, but other layers, some of them never hashed. One of the two
/// images is wrong then; hashing the new layers shows which.
fn claims_another(
    context: &Context,
    config: &ImageConfig,
    (id, manifest): (Digest, Digest),
    lazily: &[Option<Lazily>],
) -> bool {
    let state = context.store.state();
    let (Some(known), Some(mut names)) = (state.images.get(&id), config.proven_names()) else {
        return false;
    };
    if !known.is_whole() && known.manifest != manifest {
        return true;
    }
    for (above, lazily) in config.chain_ids().zip(lazily) {
        names.extend(lazily.iter().flat_map(|it| [it.key, it.above(&above)]));
    }
    !known.layers.iter().all(|key| names.contains(key))
}

/// Returns the parsed configuration, or the manifest of an artifact, which has none.
pub(crate) fn of_manifest(
    what: &str,
    manifest: &Manifest,
    config: &Document,
) -> Result<ImageConfig> {
    match Artifact::of(what, manifest)? {
        Some(artifact) => Ok(ImageConfig::of_artifact(artifact)),
        None => ImageConfig::parse(what, &config.bytes),
    }
}

/// Returns the document that identifies an image: its configuration, or an artifact's manifest.
async fn config(
    context: &Context,
    remote: &Remote,
    what: &str,
    (document, manifest): (&Document, &Manifest),
) -> Result<Document> {
    if Artifact::of(what, manifest)?.is_some() {
        return Ok(document.clone());
    }
    let digest = manifest.config.digest;
    if let Some(document) = context.asker().known_to_all(digest).await? {
        return Ok(document);
    }
    match media_type::kind(&manifest.config.media_type) {
        Kind::Config => {}
        Kind::Other if manifest.config.media_type.is_empty() => {}
        _ => {
            return Err(Error::Unsupported(format!(
                "{what} is not a container image: its configuration has the type {:?}",
                manifest.config.media_type
            )));
        }
    }
    let limit = context.config.limits.manifest_bytes;
    if manifest.config.size > limit {
        return Err(Error::too_large(
            format!("the configuration of {what}"),
            format!("{limit} bytes"),
        ));
    }
    let bytes = remote
        .small_blob(&format!("the configuration of {what}"), digest)
        .await?;
    Ok(Document {
        digest,
        bytes: bytes.into(),
    })
}

/// Refuses an image that cannot or must not be unpacked, before any layer is fetched.
pub(crate) fn check(
    context: &Context,
    what: &str,
    manifest: &Manifest,
    config: &ImageConfig,
) -> Result<()> {
    let limits = &context.config.limits;
    if manifest.layers.len() > limits.layers {
        return Err(Error::too_large(
            format!("the number of layers of {what} ({})", manifest.layers.len()),
            limits.layers,
        ));
    }
    if !config.os.is_empty() && config.os != "linux" && !config.platform().is_wasm() {
        return Err(Error::Unsupported(format!(
            "{what} is for {}, not for linux",
            config.os
        )));
    }
    if let Some(layer) = manifest
        .layers
        .iter()
        .find(|layer| layer.size > limits.blob_bytes)
    {
        return Err(Error::too_large(
            format!("layer {} of {what} with {} bytes", layer.digest, layer.size),
            format!("{} bytes", limits.blob_bytes),
        ));
    }
    if config.artifact.is_some() {
        // The artifact's own parser has already checked its layers.
        return Ok(());
    }
    let wanted = if config.module.is_some() {
        let [layer] = &manifest.layers[..] else {
            let problem =
                format!("{what} is a WebAssembly artifact that does not have exactly one module");
            return Err(Error::Unsupported(problem));
        };
        if !config.names_module(&layer.digest) {
            let problem = format!(
                "it does not contain the digest of its module, {}",
                layer.digest
            );
            return Err(Error::invalid(format!("configuration of {what}"), problem));
        }
        Kind::Module
    } else {
        Kind::Layer
    };
    if wanted == Kind::Layer && manifest.layers.len() != config.diff_ids.len() {
        return Err(Error::invalid(
            format!("manifest of {what}"),
            format!(
                "the manifest and the configuration have different numbers of layers: {} and {}",
                manifest.layers.len(),
                config.diff_ids.len()
            ),
        ));
    }
    for layer in &manifest.layers {
        match media_type::kind(&layer.media_type) {
            kind if kind == wanted => {}
            Kind::ErofsLayer if wanted == Kind::Layer => {
                if !is_known("erofs") {
                    return Err(Error::Unsupported(format!(
                        "{what} has EROFS layers, which the kernel does not support"
                    )));
                }
            }
            Kind::EncryptedLayer if wanted == Kind::Layer => {}
            _ => {
                return Err(Error::Unsupported(format!(
                    "{what} has a layer of the unknown type {:?}",
                    layer.media_type
                )));
            }
        }
    }
    Ok(())
}

/// The source of each layer, in the order of the manifest.
pub(crate) struct Sources<'a> {
    pub(crate) origins: Vec<Origin<'a>>,
    /// How each layer can be pulled lazily, if possible.
    pub(crate) lazily: Vec<Option<Lazily>>,
    /// Decryption options of encrypted layers.
    pub(crate) secrets: Vec<Option<Arc<Options>>>,
}

/// Pulls all layers into the store, each from its origin. Returns their keys, base first.
pub(crate) async fn fetch_layers(
    context: &Context,
    what: &str,
    image: (&Manifest, &ImageConfig),
    sources: Sources<'_>,
    tracker: &Tracker,
) -> Result<Vec<Digest>> {
    let at_work = TaskTracker::new();
    let fetched = fetch_all(context, what, image, sources, tracker, &at_work);
    let fetched = fetched.await;
    if let Err(Error::DiskFull { .. }) = fetched {
        make_room(context, what, &at_work).await;
    }
    fetched
}

/// Removes partial downloads and unused layers, to free a full disk.
async fn make_room(context: &Context, what: &str, at_work: &TaskTracker) {
    at_work.close();
    // Layers that are still being unpacked fill the disk, so that not even the index could be written.
    if timeout(LAST_WORK, at_work.wait()).await.is_err() {
        tracing::warn!(what, "layers are still being unpacked on a full disk");
    }
    let (store, in_use) = (Arc::clone(&context.store), context.blob_locks.in_use());
    let swept = blocking(move || {
        store.sweep_ingest(Duration::ZERO, &in_use)?;
        store.update_and_sweep(Duration::ZERO, |_, _| Ok(()))
    });
    if let Err(error) = swept.await {
        tracing::warn!(what, %error, "cannot remove unused layers from a full disk; the next garbage collection tries again");
    }
}

async fn fetch_all(
    context: &Context,
    what: &str,
    (manifest, config): (&Manifest, &ImageConfig),
    sources: Sources<'_>,
    tracker: &Tracker,
    at_work: &TaskTracker,
) -> Result<Vec<Digest>> {
    let allowance = Allowance::of(what, &context.config.limits, manifest)?;
    let mut below = Vec::new();
    let mut chain = None;
    let mut work = Vec::new();
    let count = manifest.layers.len();
    let planned = config.plan(manifest);
    let described = manifest.layers.iter().zip(planned).zip(sources.origins);
    let ways = sources.lazily.into_iter().zip(sources.secrets);
    for (index, (((blob, planned), origin), (lazily, secret))) in described.zip(ways).enumerate() {
        let name = match (&secret, &planned.diff_id) {
            (Some(secret), Some(diff_id)) => decryption::name(&blob.digest, diff_id, secret),
            _ => planned.name,
        };
        let chain_id = Digest::chain(chain.as_ref(), &name);
        chain = Some(chain_id);
        let mut holds = vec![context.store.hold(name), context.store.hold(chain_id)];
        if let Some(lazily) = &lazily {
            holds.push(context.store.hold(lazily.key));
            holds.push(context.store.hold(lazily.above(&chain_id)));
        }
        let (done, key) = watch::channel(None);
        let job = LayerJob {
            what: format!("layer {} of {count} of {what} ({})", index + 1, blob.digest),
            origin,
            blob: blob.clone(),
            name,
            diff_id: planned.diff_id,
            file: planned.file,
            secret,
            chain_id,
            below: below.clone(),
            pull: tracker.number,
            allowance: Arc::clone(&allowance),
            lazily,
            _holds: holds,
            tracker: tracker.add(blob.digest, blob.size),
            at_work: at_work.clone(),
        };
        below.push(key);
        work.push((job, done));
    }
    let jobs: Vec<&LayerJob<'_>> = work.iter().map(|(job, _)| job).collect();
    check_space(context, what, &jobs).await?;
    let mut running: Vec<BoxFuture<'_, Result<Digest>>> = Vec::with_capacity(work.len());
    for (job, done) in &work {
        running.push(Box::pin(fetch_layer(context, job, done)));
    }
    // The first failure cancels the other layers; their downloaded data stays for the next attempt.
    try_join_all(running).await
}

async fn fetch_layer(
    context: &Context,
    job: &LayerJob<'_>,
    done: &watch::Sender<Option<Digest>>,
) -> Result<Digest> {
    let key = job.run(context).await?;
    done.send_replace(Some(key));
    Ok(key)
}

/// Fails if the downloads would not fit on the disk.
async fn check_space(context: &Context, what: &str, jobs: &[&LayerJob<'_>]) -> Result<()> {
    let needed: u64 = {
        let state = context.store.state();
        jobs.iter()
            .filter(|job| !job.names().any(|name| state.layers.contains_key(&name)))
            // A lazy layer downloads only as much as fits.
            .filter(|job| !job.is_to_be_begun())
            .map(|job| job.blob.size)
            .sum()
    };
    if needed == 0 {
        return Ok(());
    }
    let root = context.store.layout().root().to_owned();
    let free = blocking(move || {
        let stat =
            rustix::fs::statvfs(&root).map_err(|error| Error::at("checking", &root, error))?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    })
    .await?;
    if needed > free {
        return Err(Error::DiskFull {
            doing: format!("pulling {what} ({needed} bytes to download, {free} bytes free)"),
        });
    }
    Ok(())
}
