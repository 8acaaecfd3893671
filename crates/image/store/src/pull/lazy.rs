//! A layer that is begun, not fetched: its table of contents comes, and all else when it is read.

use std::sync::Arc;

use orlop_toc::{Claim, Compression, Limits, Step, Toc, soci};

use super::layer::LayerJob;
use super::progress::LayerState;
use super::task::Context;
use crate::blocking::blocking;
use crate::lazy::{self, Anything, Described, Part, TOC};
use crate::manifest::{Descriptor, Manifest};
use crate::registry::{Keyring, Remote};
use crate::store::{Form, Inherited, LayerRecord, Lazy, Scratch, now};
use crate::unpack::Spending as _;
use crate::{Digest, Error, Result};

/// A table of contents that is larger as it is fetched is not worth it.
const LARGEST: u64 = 32 << 20;

/// How a layer can be had bit by bit.
#[derive(Debug, Clone)]
pub(crate) struct Lazily {
    way: Way,
    /// Its name on disk, unless what it looks like depends on the layers below.
    pub(super) key: Digest,
    /// Whether it is to be had so if it is not here.
    pub(super) may_begin: bool,
    /// With which its registry is asked.
    pub(super) keyring: Keyring,
}

#[derive(Debug, Clone)]
enum Way {
    /// Its table of contents is in the layer.
    Claim(Claim),
    /// It is a blob of its own.
    Soci(Digest, Toc),
}

impl Lazily {
    /// What a manifest, and an index beside it, promise of a layer.
    pub(super) fn of(
        blob: &Descriptor,
        diff_id: &Digest,
        index: Option<&soci::Manifest>,
    ) -> Option<Self> {
        let way = by_claim(blob).or_else(|| by_index(blob, index?))?;
        let table = match &way {
            Way::Claim(claim) => claim.digests(),
            Way::Soci(ztoc, _) => format!("SOCI {ztoc}"),
        };
        // Nobody hashes its archive: who is promised another table of contents gets another layer.
        let name = format!("a lazy layer: {} {diff_id} {table}", blob.digest);
        let key = Digest::of(name.as_bytes());
        Some(Self {
            way,
            key,
            may_begin: false,
            keyring: Keyring::default(),
        })
    }

    /// Its name where it looks as it must above certain layers.
    pub(super) fn above(&self, chain_id: &Digest) -> Digest {
        Digest::chain(Some(chain_id), &self.key)
    }
}

fn by_claim(blob: &Descriptor) -> Option<Way> {
    let compression = if blob.media_type.ends_with("zstd") {
        Compression::Zstd
    } else {
        Compression::Gzip
    };
    let annotation = |name: &str| blob.annotations.get(name).map(String::as_str);
    match Claim::of(compression, annotation) {
        Ok(claim) => claim.map(Way::Claim),
        Err(error) => {
            tracing::info!(layer = %blob.digest, %error, "pulling a layer completely instead of lazily");
            None
        }
    }
}

fn by_index(blob: &Descriptor, index: &soci::Manifest) -> Option<Way> {
    let layer = orlop_toc::Digest::parse(&blob.digest.to_string())?;
    match index.toc(layer, blob.size, &Limits::default()) {
        Ok(found) => {
            let (ztoc, toc) = found?;
            Some(Way::Soci(ztoc.to_string().parse().ok()?, toc))
        }
        Err(error) => {
            tracing::info!(layer = %blob.digest, %error, "pulling a layer completely instead of lazily");
            None
        }
    }
}

/// The SOCI index that an image's manifest names, if it is of use.
pub(super) async fn soci_index(remote: &Remote, manifest: &Manifest) -> Option<soci::Manifest> {
    let named = manifest.annotations.get(soci::INDEX_DIGEST)?;
    let found = async {
        let digest: Digest = named
            .parse()
            .map_err(|error| Error::invalid("the name of a SOCI index", error))?;
        let expected = orlop_toc::Digest::parse(named).ok_or_else(|| {
            Error::invalid("the name of a SOCI index", "it is not a sha256 digest")
        })?;
        let fetched = remote.manifest(named, Some(digest)).await?;
        let index = soci::Manifest::parse(&fetched.bytes, expected);
        index.map_err(|error| Error::invalid("a SOCI index", orlop_text::with_causes(&error)))
    };
    match found.await {
        Ok(index) => Some(index),
        Err(error) => {
            tracing::info!(index = named, %error, "pulling an image without its SOCI index");
            None
        }
    }
}

impl LayerJob<'_> {
    /// Begins the layer; nothing if it has to be fetched as others are.
    pub(super) async fn begin(
        &self,
        context: &Context,
        remote: &Remote,
        lazily: &Lazily,
    ) -> Result<Option<Digest>> {
        let begun = async {
            context.lazies.prepare().await?;
            let table = self.table(context, remote, lazily).await?;
            let repository = remote.repository();
            context.lazies.note(repository, &lazily.keyring, true).await;
            self.put(context, remote, lazily, table).await
        };
        match self.tracker.steps.during("contents", begun).await {
            Ok(key) => {
                self.tracker.enter(LayerState::Begun);
                Ok(Some(key))
            }
            // What is too large or has no room for its names is so in any form.
            Err(
                error @ (Error::TooLarge { .. } | Error::DiskFull { .. } | Error::Cancelled(_)),
            ) => Err(error),
            Err(error) => {
                let error = orlop_text::with_causes(&error);
                tracing::info!(
                    what = self.what,
                    error,
                    "pulling a layer completely instead of lazily"
                );
                Ok(None)
            }
        }
    }

    /// What the layer holds, verified.
    async fn table(
        &self,
        context: &Context,
        remote: &Remote,
        lazily: &Lazily,
    ) -> Result<(Scratch, Described)> {
        let limits = Limits {
            fetched: LARGEST,
            ..Limits::default()
        };
        let blob = self.blob.size;
        let what = self.what.clone();
        let malformed = move |error: orlop_toc::Error| {
            let reason = orlop_text::with_causes(&error);
            Error::invalid(format!("the table of contents of {what}"), reason)
        };
        let (digest, size, toc) = match &lazily.way {
            Way::Soci(ztoc, toc) => (*ztoc, toc.range().end, toc.clone()),
            Way::Claim(claim) => {
                let toc = match claim.begin(blob, &limits).map_err(&malformed)? {
                    Step::Table(toc) => toc,
                    Step::Footer(range) => {
                        let tail = self
                            .fetch_part(remote, self.blob.digest, blob, range)
                            .await?;
                        claim.locate(&tail, blob, &limits).map_err(&malformed)?
                    }
                };
                (self.blob.digest, blob, toc)
            }
        };
        let fetched = self.fetch_part(remote, digest, size, toc.range()).await?;
        let (store, image_limits) = (Arc::clone(&context.store), context.config.limits.clone());
        let (what, at_work) = (self.what.clone(), self.at_work.token());
        // What it holds waits on the disk for the layers below.
        let _turn = context.lazies.turn_to_read().await?;
        blocking(move || {
            let index = toc.parse(&fetched, &limits).map_err(malformed)?;
            let described = lazy::describe(&what, &index, &image_limits)?;
            let scratch = store.layout().scratch("layer")?.counted(at_work);
            let path = scratch.path().join(TOC);
            std::fs::write(&path, index.bytes())
                .map_err(|error| Error::at("writing", &path, error))?;
            Ok((scratch, described))
        })
        .await
    }

    async fn fetch_part(
        &self,
        remote: &Remote,
        blob: Digest,
        size: u64,
        range: std::ops::Range<u64>,
    ) -> Result<Vec<u8>> {
        let part = Part {
            what: format!("the contents of {}", self.what),
            blob,
            size,
            range,
        };
        lazy::fetch(remote, &part, &Anything).await
    }

    async fn put(
        &self,
        context: &Context,
        remote: &Remote,
        lazily: &Lazily,
        (scratch, described): (Scratch, Described),
    ) -> Result<Digest> {
        let spent = self.allowance.for_layer();
        spent.spend(described.bytes)?;
        let mut implicit = described.implicit;
        let mut looks = Vec::new();
        if !implicit.is_empty() && !self.below.is_empty() {
            looks = self.inherited(context, implicit.clone()).await?;
        }
        let key = if looks.is_empty() {
            lazily.key
        } else {
            implicit.clear();
            lazily.above(&self.chain_id)
        };
        let (scratch, bytes) = self.build(context, scratch, looks).await?;
        let record = LayerRecord {
            key,
            diff_id: self.name,
            archive_bytes: 0,
            bytes: described.bytes,
            // What is here of it is looked at.
            disk_bytes: 0,
            inodes: 5,
            implicit,
            blob: None,
            replayable: false,
            created: now(),
            form: Form::Lazy(Lazy {
                bytes,
                blob: self.blob.digest,
                blob_bytes: self.blob.size,
                repository: remote.repository().to_string(),
            }),
        };
        context.store.publish(scratch, record).await?;
        spent.keep();
        if let Err(error) = context.lazies.serve(&[key]).await {
            let store = Arc::clone(&context.store);
            blocking(move || store.give_up(&key)).await?;
            return Err(error);
        }
        Ok(key)
    }

    async fn build(
        &self,
        context: &Context,
        scratch: Scratch,
        looks: Vec<Inherited>,
    ) -> Result<(Scratch, u64)> {
        let (what, limits) = (self.what.clone(), context.config.limits.clone());
        let _turn = context.lazies.turn_to_read().await?;
        blocking(move || {
            let bytes = lazy::build(&what, &looks, scratch.path(), &limits)?;
            Ok((scratch, bytes))
        })
        .await
    }
}
