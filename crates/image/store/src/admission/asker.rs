//! From a name to the manifest that it means on a platform. No layer is asked for, and nothing is kept.

use std::sync::Arc;

use super::decide;
use super::request::Request;
use super::settings::Settings;
use crate::blocking::blocking;
use crate::document::Document;
use crate::manifest::{Document as ManifestDocument, Manifest, choose};
use crate::registries::Asking;
use crate::registry::{Remote, Transport, next_number};
use crate::{Digest, Error, Platform, Reference, Result, Selector, Verdict};

/// Indexes of indexes are allowed, but not without end.
const MAX_INDEX_DEPTH: usize = 4;

/// Finds a document that is here already. Blocks.
pub(crate) type Lookup = dyn Fn(&Digest) -> Result<Option<Document>> + Send + Sync;

/// Whom to ask what a name means.
pub(crate) struct Asker<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) transport: &'a Arc<Transport>,
    /// Chosen from an index.
    pub(crate) platform: &'a Platform,
    /// Where documents may be already.
    pub(crate) here: Option<Arc<Lookup>>,
}

/// A manifest or index as it was fetched, and the type that the registry says it has.
pub(crate) type FetchedManifest = (Digest, Vec<u8>, Option<String>);

impl Asker<'_> {
    /// What the policy would say of the image.
    pub(crate) async fn judge(&self, request: Request) -> Result<Option<Verdict>> {
        let what = request.reference.to_string();
        let (remote, named) = self.resolve(&request, next_number()).await?;
        let (_, _, manifests) = self.find_manifest(&remote, &what, named).await?;
        decide::verdict(self.settings, &remote, &request, manifests).await
    }

    /// Opens the registry and asks it what the name means.
    pub(crate) async fn resolve(
        &self,
        request: &Request,
        number: u64,
    ) -> Result<(Remote, FetchedManifest)> {
        let remote = Remote::open(
            Arc::clone(self.transport),
            &self.settings.registry,
            request.reference.repository().clone(),
            Asking::For(request.reference.selector().clone()),
            request.keyring.clone(),
            number,
        )
        .await?;
        let named = self.fetch_named(&remote, &request.reference).await?;
        Ok((remote, named))
    }

    /// What the reference itself names: an index, or a manifest right away.
    async fn fetch_named(&self, remote: &Remote, reference: &Reference) -> Result<FetchedManifest> {
        match reference.selector() {
            Selector::Digest(digest) => self.fetch_known(remote, *digest).await,
            Selector::Tag(_) => {
                let fetched = remote.manifest(&reference.selector_text(), None).await?;
                Ok((fetched.digest, fetched.bytes, fetched.content_type))
            }
        }
    }

    /// Follows what the reference names through indexes to the platform's manifest. Also returns the
    /// digests on the way, the manifest's first.
    pub(crate) async fn find_manifest(
        &self,
        remote: &Remote,
        what: &str,
        mut fetched: FetchedManifest,
    ) -> Result<(Document, Manifest, Vec<Digest>)> {
        let mut way = Vec::new();
        for _ in 0..MAX_INDEX_DEPTH {
            let (digest, bytes, content_type) = fetched;
            way.insert(0, digest);
            match ManifestDocument::parse(what, &bytes, content_type.as_deref())? {
                ManifestDocument::Manifest(manifest) => {
                    return Ok((
                        Document {
                            digest,
                            bytes: bytes.into(),
                        },
                        *manifest,
                        way,
                    ));
                }
                ManifestDocument::Index(entries) => {
                    let entry = choose(what, &entries, self.platform)?;
                    fetched = self.fetch_known(remote, entry.digest).await?;
                }
            }
        }
        Err(Error::invalid(
            format!("manifest of {what}"),
            format!("its indexes are nested more than {MAX_INDEX_DEPTH} levels deep"),
        ))
    }

    async fn fetch_known(&self, remote: &Remote, digest: Digest) -> Result<FetchedManifest> {
        if let Some(document) = self.known_to_all(digest).await? {
            return Ok((digest, document.bytes.to_vec(), None));
        }
        let fetched = remote.manifest(&digest.to_string(), Some(digest)).await?;
        Ok((digest, fetched.bytes, fetched.content_type))
    }

    /// A document that is here, where whoever names it may have it: namespaces with credentials of their own have
    /// images that others have not, and having one is no proof that this one may.
    pub(crate) async fn known_to_all(&self, digest: Digest) -> Result<Option<Document>> {
        let Some(here) = &self.here else {
            return Ok(None);
        };
        if self.settings.registry.namespace_credentials.dir.is_some() {
            return Ok(None);
        }
        let here = Arc::clone(here);
        blocking(move || here(&digest)).await
    }
}
