//! The tags under which cosign stores signatures and attestations of an image.

use crate::Digest;

/// Returns the tag at which cosign stores the signatures of a manifest.
pub(crate) fn tag_of(digest: &Digest) -> Option<String> {
    tag(digest, "sig")
}

/// Returns the tag at which cosign stored attestations.
pub(crate) fn tag_of_attestations(digest: &Digest) -> Option<String> {
    tag(digest, "att")
}

fn tag(digest: &Digest, kind: &str) -> Option<String> {
    let tag = format!("{}.{kind}", digest.to_string().replacen(':', "-", 1));
    // Tags have at most 128 characters.
    (tag.len() <= 128).then_some(tag)
}
