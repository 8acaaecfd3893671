//! Checks whether the current policy allows stored images.

use std::sync::Arc;

use super::front::Images;
use crate::admission::{PullRequest, asked, keys_of};
use crate::blocking::blocking;
use crate::manifest::{Document, Manifest};
use crate::policy::{PolicyFor, Verdict, judge_by_names};
use crate::store::{ImageRecord, Store};
use crate::{Digest, Error, Reference, Result};

impl Images {
    /// Refuses an image that the pods of `namespace` may not use. `asked` is the requested name; without one, because
    /// the image was requested by id, any of its names counts.
    pub async fn admit(
        &self,
        image: &Digest,
        asked: Option<&Reference>,
        namespace: &str,
    ) -> Result<()> {
        if let Some(verdict) = self.judge(image, asked, namespace).await? {
            verdict.into_result()?;
        }
        self.admit_by_keys(image, namespace).await
    }

    /// Refuses an image with encrypted layers that the pods of `namespace` have no keys for, even if the layers are
    /// stored decrypted. Does not read the layers.
    async fn admit_by_keys(&self, image: &Digest, namespace: &str) -> Result<()> {
        let record = {
            let state = self.store().state();
            let record = state.images.get(image);
            let record = record.ok_or_else(|| Error::NotFound(image.to_string()))?;
            record.is_encrypted.then(|| record.clone())
        };
        let Some(record) = record else {
            return Ok(());
        };
        // Guests decrypt layers themselves.
        if !record.is_whole() {
            return Ok(());
        }
        let store = Arc::clone(self.store());
        let manifest = blocking(move || manifest_of(&store, &record)).await?;
        let whom = PolicyFor::Namespace(namespace.to_owned());
        let keys = keys_of(&self.context().config.keys, &whom).await?;
        let what = image.to_string();
        if !manifest.is_encrypted() {
            return Err(Error::invalid(
                what,
                "its manifest does not match its layers",
            ));
        }
        let context = self.context();
        let opened = context.config.keys.open(&what, &manifest, &keys);
        opened.await.map(drop)
    }

    /// Returns the policy's verdict on a stored image for `namespace`, or `None` if there is no policy. Asks no
    /// registry.
    pub async fn judge(
        &self,
        image: &Digest,
        asked: Option<&Reference>,
        namespace: &str,
    ) -> Result<Option<Verdict>> {
        let namespace = PolicyFor::Namespace(namespace.to_owned());
        let Some(policy) = namespace.read(&self.context().config.policies).await? else {
            return Ok(None);
        };
        let record = self.store().state().images.get(image).cloned();
        let record = record.ok_or_else(|| Error::NotFound(image.to_string()))?;
        let names = match asked {
            Some(name) => vec![name.clone()],
            None => names(&record),
        };
        let (store, image) = (Arc::clone(self.store()), *image);
        blocking(move || {
            let evidence = store.evidence(&image)?.together();
            judge_by_names(&policy, &names, &evidence).map(Some)
        })
        .await
    }

    /// Returns the policy's verdict on a pull. Fetches signatures, but stores nothing.
    pub async fn judge_pull(&self, request: PullRequest) -> Result<Option<Verdict>> {
        let mut asked = asked(&self.context().admission, request).await?;
        while let Some(request) = asked.next() {
            match self.context().asker().judge(request).await {
                Ok(verdict) => return Ok(verdict),
                Err(error) => asked.note(error)?,
            }
        }
        Err(asked.failure())
    }
}

/// Returns the manifest of a stored image.
pub(crate) fn manifest_of(store: &Store, record: &ImageRecord) -> Result<Manifest> {
    let what = record.manifest.to_string();
    let document = store.document(&record.manifest)?;
    let document = document.ok_or_else(|| Error::NotFound(what.clone()))?;
    match Document::parse(&what, &document.bytes, None)? {
        Document::Manifest(manifest) => Ok(*manifest),
        Document::Index(_) => Err(Error::invalid(what, "it is not a manifest")),
    }
}

/// Returns the image's names, tags before digests.
fn names(record: &ImageRecord) -> Vec<Reference> {
    let names = record.tags.iter().chain(&record.digests);
    names.filter_map(|name| name.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use orlop_testkit::Scratch;
    use serde_json::json;

    use super::*;
    use crate::Config;
    use crate::document::Document;

    /// A manifest with one layer of this type.
    fn manifest(kind: &str) -> Document {
        let digest = Digest::of(b"x").to_string();
        let described = |kind: &str| json!({ "mediaType": kind, "digest": digest, "size": 1 });
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": described("application/vnd.oci.image.config.v1+json"),
            "layers": [described(kind)],
        });
        let bytes = manifest.to_string().into_bytes();
        Document {
            digest: Digest::of(&bytes),
            bytes: bytes.into(),
        }
    }

    /// The store never creates such a record. If it exists anyway, an encrypted layer must not be usable without a
    /// key.
    #[tokio::test]
    async fn encrypted_layers_under_a_plain_manifest_are_nobody_s() {
        const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
        let scratch = Scratch::new();
        let images = Images::open(Config::new(scratch.dir())).await.unwrap();
        for (kind, is_encrypted, complaint) in [
            (LAYER.to_owned(), false, None),
            (LAYER.to_owned(), true, Some("does not match its layers")),
            (format!("{LAYER}+encrypted"), true, Some("no decryption")),
        ] {
            let manifest = manifest(&kind);
            let id = Digest::of(format!("{kind} {is_encrypted}").as_bytes());
            let record = ImageRecord {
                id,
                manifest: manifest.digest,
                layers: Vec::new(),
                tags: BTreeSet::new(),
                digests: BTreeSet::new(),
                created: 0,
                handlers: BTreeSet::from([String::new()]),
                is_encrypted,
            };
            let put = images.store().update(|_, change| {
                change.documents.push((manifest.digest, Some(manifest)));
                change.images.push((id, Some(record)));
                Ok(())
            });
            put.unwrap();
            let admitted = images.admit(&id, None, "").await;
            match (admitted, complaint) {
                (Ok(()), None) => {}
                (Err(error), Some(complaint)) => {
                    let told = error.to_string();
                    assert!(told.contains(complaint), "{told}");
                }
                (outcome, _) => panic!("{kind} {is_encrypted}: {outcome:?}"),
            }
        }
    }
}
