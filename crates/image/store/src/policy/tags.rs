//! The tags under which cosign stores signatures and attestations of an image.

use crate::Digest;

/// The tag at which cosign puts the signatures of what has this digest.
pub(crate) fn tag_of(digest: &Digest) -> Option<String> {
    tag(digest, "sig")
}

/// The tag at which it put attestations.
pub(crate) fn tag_of_attestations(digest: &Digest) -> Option<String> {
    tag(digest, "att")
}

fn tag(digest: &Digest, kind: &str) -> Option<String> {
    let tag = format!("{}.{kind}", digest.to_string().replacen(':', "-", 1));
    // With more, it would not be a tag.
    (tag.len() <= 128).then_some(tag)
}
