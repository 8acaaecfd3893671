//! Resolves a name to the manifest for a platform. Fetches no layers and stores nothing.

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

/// Maximum nesting of indexes.
const MAX_INDEX_DEPTH: usize = 4;

/// Lookup of a document that is already stored. Blocks.
pub(crate) type Lookup = dyn Fn(&Digest) -> Result<Option<Document>> + Send + Sync;

/// Resolver of image names, which asks registries.
pub(crate) struct Asker<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) transport: &'a Arc<Transport>,
    /// The platform to choose from an index.
    pub(crate) platform: &'a Platform,
    /// Lookup of documents that are already stored.
    pub(crate) here: Option<Arc<Lookup>>,
}

/// A fetched manifest or index: its digest, its bytes, and the content type in the registry's response.
pub(crate) type FetchedManifest = (Digest, Vec<u8>, Option<String>);

impl Asker<'_> {
    /// Returns the policy's verdict on the image.
    pub(crate) async fn judge(&self, request: Request) -> Result<Option<Verdict>> {
        let what = request.reference.to_string();
        let (remote, named) = self.resolve(&request, next_number()).await?;
        let (_, _, manifests) = self.find_manifest(&remote, &what, named).await?;
        decide::verdict(self.settings, &remote, &request, manifests).await
    }

    /// Opens the registry and fetches the manifest or index of the name.
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

    /// Fetches the manifest or index that the reference names.
    async fn fetch_named(&self, remote: &Remote, reference: &Reference) -> Result<FetchedManifest> {
        match reference.selector() {
            Selector::Digest(digest) => self.fetch_known(remote, *digest).await,
            Selector::Tag(_) => {
                let fetched = remote.manifest(&reference.selector_text(), None).await?;
                Ok((fetched.digest, fetched.bytes, fetched.content_type))
            }
        }
    }

    /// Follows indexes from the reference to the manifest for the platform. Also returns the digests on the way, the
    /// manifest's first.
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

    /// Returns a stored document, unless namespaces have credentials of their own. In that case a namespace must
    /// prove its access to the image at the registry.
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
