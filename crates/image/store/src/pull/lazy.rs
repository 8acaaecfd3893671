//! Starts a lazy pull of a layer: fetches its table of contents, and leaves the content to later reads.

use std::sync::Arc;

use orlop_toc::{Limits, Step};

use super::context::Context;
use super::layer::LayerJob;
use super::lazy_layer::{Lazily, Way};
use super::progress::LayerState;
use crate::blocking::blocking;
use crate::clock::now;
use crate::lazy::{self, Anything, Described, Part};
use crate::registry::Remote;
use crate::store::{Form, Inherited, LayerRecord, Lazy, Scratch, TOC};
use crate::unpack::Spending as _;
use crate::{Digest, Error, Result};

/// Maximum size of a compressed table of contents. Above it, a lazy pull is not worthwhile.
const LARGEST: u64 = 32 << 20;

impl LayerJob<'_> {
    /// Starts a lazy pull of the layer. Returns `None` if the layer must be pulled completely.
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
            // A complete pull would fail with these errors too.
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

    /// Fetches and verifies the layer's table of contents.
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
        // The table of contents stays on disk until the layers below are known.
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
            // The actual disk use is measured on demand.
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
