//! An OCI image layout with one image.

use serde_json::json;

use crate::Archive;
use crate::digest::Digest;

/// Annotation with the name of an image in an archive.
const NAME: &str = "io.containerd.image.name";

/// Starts a layout whose manifest or index has these names.
pub(super) fn begin(media_type: &str, top: &Digest, size: usize, names: &[String]) -> Archive {
    let entry = |name: Option<&String>| {
        let mut entry = json!({
            "mediaType": media_type,
            "digest": top.to_string(),
            "size": size,
        });
        if let Some(name) = name {
            entry["annotations"] = json!({ NAME: name });
        }
        entry
    };
    let entries: Vec<_> = if names.is_empty() {
        vec![entry(None)]
    } else {
        names.iter().map(|name| entry(Some(name))).collect()
    };
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": entries,
    });
    let mut archive = Archive::default();
    archive.bytes("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec());
    archive.bytes("index.json", index.to_string().into_bytes());
    archive
}

/// Returns whether the name fits the content: a tag always does, a digest only if it is that of the image.
pub(super) fn is_name_of(name: &str, top: &Digest) -> bool {
    match name.split_once('@') {
        Some((_, digest)) => digest == top.to_string(),
        None => name.contains('/') || name.contains(':'),
    }
}
