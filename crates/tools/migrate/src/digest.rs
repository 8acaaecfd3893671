//! Digests of content.

use std::fmt;

use aws_lc_rs::digest::{SHA256, digest};

/// A digest as in store paths: the algorithm, and only hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Digest {
    text: String,
    colon: usize,
}

impl Digest {
    /// Parses `ALGORITHM:DIGITS`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (algorithm, digits) = text.split_once(':')?;
        let length = match algorithm {
            "sha256" => 64,
            "sha384" => 96,
            "sha512" => 128,
            _ => return None,
        };
        let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let is_right = digits.len() == length && digits.as_bytes().iter().all(is_digit);
        is_right.then(|| Self {
            text: text.to_owned(),
            colon: algorithm.len(),
        })
    }

    /// Returns the SHA-256 digest of bytes.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let digits = orlop_text::hex::encode(digest(&SHA256, bytes).as_ref());
        Self {
            text: format!("sha256:{digits}"),
            colon: "sha256".len(),
        }
    }

    /// Returns the digits.
    pub(crate) fn digits(&self) -> &str {
        &self.text[self.colon + 1..]
    }

    /// Returns the path in an OCI image layout.
    pub(crate) fn blob_path(&self) -> String {
        format!("blobs/{}/{}", &self.text[..self.colon], self.digits())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
