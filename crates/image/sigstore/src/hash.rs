//! SHA-2 digests.

pub(crate) use aws_lc_rs::digest::{SHA256, SHA384, SHA512, digest};

/// Computes the SHA-256 of concatenated parts.
pub(crate) fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = aws_lc_rs::digest::Context::new(&SHA256);
    for part in parts {
        hash.update(part);
    }
    let mut bytes = [0; 32];
    bytes.copy_from_slice(hash.finish().as_ref());
    bytes
}
