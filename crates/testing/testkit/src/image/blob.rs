//! A blob of an image with its digest.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256, Sha512};

use super::compression::{Compression, unpack};

/// Digest algorithm of the blobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hash {
    /// The usual algorithm.
    Sha256,
    /// The other algorithm in the specification.
    Sha512,
}

impl Hash {
    pub(super) fn digest(self, bytes: &[u8]) -> String {
        match self {
            Self::Sha256 => written("sha256:", &Sha256::digest(bytes)),
            Self::Sha512 => written("sha512:", &Sha512::digest(bytes)),
        }
    }
}

/// Bytes with a digest.
#[derive(Debug, Clone)]
pub struct Blob {
    /// Media type in its descriptor.
    pub media_type: String,
    /// Digest of the bytes.
    pub digest: String,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Annotations in its descriptor.
    pub annotations: serde_json::Map<String, Value>,
}

impl Blob {
    /// Creates a blob from bytes.
    pub fn new(media_type: &str, bytes: Vec<u8>, hash: Hash) -> Self {
        Self {
            media_type: media_type.to_owned(),
            digest: hash.digest(&bytes),
            bytes,
            annotations: serde_json::Map::new(),
        }
    }

    /// Creates the empty configuration.
    pub fn empty() -> Self {
        Self::json("application/vnd.oci.empty.v1+json", &json!({}))
    }

    /// Creates a JSON blob, such as a manifest.
    pub fn json(media_type: &str, value: &Value) -> Self {
        Self::new(media_type, to_bytes(value), Hash::Sha256)
    }

    /// Returns the archive of a layer.
    pub(super) fn unpacked(&self) -> Vec<u8> {
        let suffixes = [("gzip", Compression::Gzip), ("zstd", Compression::Zstd)];
        let known = suffixes
            .iter()
            .find(|(end, _)| self.media_type.ends_with(end));
        unpack(
            &self.bytes,
            known.map_or(Compression::Plain, |(_, how)| *how),
        )
    }

    /// Returns the descriptor for a manifest.
    pub fn descriptor(&self) -> Value {
        let mut descriptor = json!({
            "mediaType": self.media_type,
            "digest": self.digest,
            "size": self.bytes.len(),
        });
        if !self.annotations.is_empty() {
            descriptor["annotations"] = Value::Object(self.annotations.clone());
        }
        descriptor
    }
}

pub(super) fn written(algorithm: &str, hash: &[u8]) -> String {
    hash.iter().fold(algorithm.to_owned(), |text, byte| {
        text + &format!("{byte:02x}")
    })
}

/// Returns the `sha256:…` digest of bytes.
pub fn digest(bytes: &[u8]) -> String {
    Hash::Sha256.digest(bytes)
}

pub(super) fn to_bytes(value: &Value) -> Vec<u8> {
    serde_json::to_vec(value).expect("JSON values serialise")
}
