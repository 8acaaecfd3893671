//! SOCI index of an image: an artifact whose layers are ztocs.

use serde_json::json;

use super::ztoc;
use crate::image::{Blob, BuiltImage, Hash};

/// Annotation of a manifest with the digest of its index.
pub(crate) const INDEX_DIGEST: &str = "com.amazon.soci.index-digest";

const CONFIG: &str = "application/vnd.amazon.soci.index.v2+json";

/// Creates an index of all plain gzip layers with a known archive; `None` if there is no such layer.
pub(crate) fn index(layers: &[Blob], tars: &[Vec<u8>], apart: u64) -> Option<BuiltImage> {
    let plain = layers.iter().zip(tars);
    let plain = plain.filter(|(layer, tar)| layer.media_type.ends_with("gzip") && !tar.is_empty());
    let ztocs: Vec<_> = plain.map(|(layer, _)| described(layer, apart)).collect();
    if ztocs.is_empty() {
        return None;
    }
    let more = json!({
        "artifactType": CONFIG,
        "annotations": { "com.amazon.soci.build-tool-identifier": "testkit" },
    });
    let config = Blob::json(CONFIG, &json!({}));
    Some(BuiltImage::of_blobs(config, ztocs, more))
}

fn described(layer: &Blob, apart: u64) -> Blob {
    assert!(layer.digest.starts_with("sha256:"), "SOCI knows no other");
    let ztoc = ztoc(&layer.bytes, apart);
    let mut blob = Blob::new("application/octet-stream", ztoc, Hash::Sha256);
    for (key, value) in [
        ("com.amazon.soci.image-layer-mediaType", &layer.media_type),
        ("com.amazon.soci.image-layer-digest", &layer.digest),
    ] {
        blob.annotations.insert(key.to_owned(), json!(value));
    }
    blob
}
