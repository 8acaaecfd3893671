//! Content digests: `sha256:` and 64 hex digits.

use std::fmt::{self, Write as _};
use std::io;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::Digest as _;

/// A SHA-256 content digest, written `sha256:<64 hex digits>`.
///
/// Other algorithms are not in use for images and are refused at the edge.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

/// A text that is not a SHA-256 digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a sha256 digest: {0:?}")]
pub struct InvalidDigest(String);

impl Digest {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(sha2::Sha256::digest(bytes).into())
    }

    /// The 64 hex digits alone, as used for file names and short ids.
    pub fn hex(&self) -> String {
        let mut text = String::with_capacity(64);
        for byte in self.0 {
            // Writing to a String can't fail.
            let _ = write!(text, "{byte:02x}");
        }
        text
    }

    /// Parses the 64 hex digits alone.
    pub fn from_hex(hex: &str) -> Result<Self, InvalidDigest> {
        let wrong = || InvalidDigest(shorten(hex));
        let digits = hex.as_bytes();
        if digits.len() != 64 {
            return Err(wrong());
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = hex_digit(pair[0]).ok_or_else(wrong)? << 4
                | hex_digit(pair[1]).ok_or_else(wrong)?;
        }
        Ok(Self(bytes))
    }

    /// The chain id of a layer on top of the chain `parent` (OCI image specification,
    /// "Layer ChainID").
    pub fn chain(parent: Option<&Self>, diff_id: &Self) -> Self {
        match parent {
            None => *diff_id,
            Some(parent) => Self::of(format!("{parent} {diff_id}").as_bytes()),
        }
    }
}

impl FromStr for Digest {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Self, InvalidDigest> {
        let hex = text
            .strip_prefix("sha256:")
            .ok_or_else(|| InvalidDigest(shorten(text)))?;
        Self::from_hex(hex)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Hashes a stream as it goes by.
#[derive(Clone, Default)]
pub(crate) struct Hasher(sha2::Sha256);

impl Hasher {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

impl io::Write for Hasher {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Registries only ever write lower-case digits, and upper case would make a second name
/// for the same content.
fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

fn shorten(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_round_trips_through_text() {
        let digest = Digest::of(b"abc");
        assert_eq!(
            digest.to_string(),
            "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(digest.to_string().parse(), Ok(digest));
    }

    #[test]
    fn upper_case_short_and_foreign_digests_are_refused() {
        for text in ["", "sha256:", "sha256:AB", "sha512:00", &"0".repeat(64)] {
            assert!(text.parse::<Digest>().is_err(), "{text}");
        }
        let upper = Digest::of(b"abc")
            .to_string()
            .to_uppercase()
            .replace("SHA", "sha");
        assert!(upper.parse::<Digest>().is_err());
    }

    #[test]
    fn chain_id_of_the_base_is_its_diff_id() {
        let (a, b) = (Digest::of(b"a"), Digest::of(b"b"));
        assert_eq!(Digest::chain(None, &a), a);
        assert_eq!(
            Digest::chain(Some(&a), &b),
            Digest::of(format!("{a} {b}").as_bytes())
        );
    }
}
