//! SHA-256 digests, which all three formats use.

use std::fmt;

use aws_lc_rs::digest::{Context, SHA256};

/// The SHA-256 of some bytes, written `sha256:<64 hex digits>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub(crate) [u8; 32]);

impl Digest {
    /// Computes the digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let mut hasher = Context::new(&SHA256);
        hasher.update(bytes);
        Self::finish(hasher)
    }

    /// Returns the digest of a SHA-256 hasher.
    pub(crate) fn finish(hasher: Context) -> Self {
        let mut digest = [0; 32];
        digest.copy_from_slice(hasher.finish().as_ref());
        Self(digest)
    }

    /// Parses a digest.
    pub fn parse(text: &str) -> Option<Self> {
        orlop_text::hex::decode(text.strip_prefix("sha256:")?).map(Self)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", orlop_text::hex::encode(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_what_its_text_says() {
        let digest = Digest::of(b"x");
        assert_eq!(Digest::parse(&digest.to_string()), Some(digest));
        for text in ["", "sha256:", "sha512:00", "sha256:00", &"0".repeat(64)] {
            assert_eq!(Digest::parse(text), None, "{text}");
        }
    }
}
