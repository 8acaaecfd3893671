//! OCI artifacts: manifests whose blobs are files, as pushed by ORAS.

use serde_json::json;

use super::blob::{Blob, Hash};
use super::built::BuiltImage;
use super::layer::Layer;

const TITLE: &str = "org.opencontainers.image.title";
const UNPACK: &str = "io.deis.oras.content.unpack";

/// A blob of an artifact.
#[derive(Debug, Clone)]
pub struct ArtifactBlob(Blob);

impl ArtifactBlob {
    /// Creates a named file.
    pub fn file(name: &str, content: &[u8]) -> Self {
        Self::nameless("application/octet-stream", content).annotated(TITLE, name)
    }

    /// Creates a blob of a media type without a name.
    pub fn nameless(media_type: &str, content: &[u8]) -> Self {
        Self(Blob::new(media_type, content.to_vec(), Hash::Sha256))
    }

    /// Creates an archive of a directory that is to be unpacked.
    pub fn directory(name: &str, layer: Layer) -> Self {
        let kind = "application/vnd.oci.image.layer.v1.tar";
        let archive = Self::nameless(kind, &layer.tar());
        archive.annotated(TITLE, name).annotated(UNPACK, "true")
    }

    /// Adds an annotation.
    pub fn annotated(mut self, name: &str, value: &str) -> Self {
        self.0.annotations.insert(name.to_owned(), value.into());
        self
    }

    /// Returns the digest of its bytes.
    pub fn digest(&self) -> &str {
        &self.0.digest
    }
}

impl BuiltImage {
    /// Creates an artifact of a type. Its ID is the digest of its manifest ([`BuiltImage::digest`]).
    pub fn artifact(kind: &str, blobs: Vec<ArtifactBlob>) -> Self {
        let layers = blobs.into_iter().map(|blob| blob.0).collect();
        Self::of_blobs(Blob::empty(), layers, json!({ "artifactType": kind }))
    }
}
