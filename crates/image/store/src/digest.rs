//! Content digests: an algorithm and its result in hex digits.

use std::fmt;
use std::io;
use std::str::FromStr;

use aws_lc_rs::digest::{Context, SHA256, SHA512};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A content digest, written `sha256:<64 hex digits>` or `sha512:<128 hex digits>`.
///
/// Images have SHA-256 ids, but the OCI image specification allows both. Other algorithms are refused when the digest
/// is parsed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(Value);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Value {
    Sha256([u8; 32]),
    Sha512([u8; 64]),
}

/// A text that is not a valid digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a sha256 or sha512 digest: {0:?}")]
pub struct InvalidDigest(String);

impl Digest {
    /// Returns the SHA-256 digest of everything in a reader.
    pub(crate) fn of_all(from: impl std::io::Read) -> std::io::Result<Self> {
        hash_all(Hasher::like(None), from)
    }

    /// Returns the digest of everything in a reader, by this digest's algorithm.
    pub(crate) fn of_all_like(&self, from: impl std::io::Read) -> std::io::Result<Self> {
        hash_all(Hasher::like(Some(self)), from)
    }

    /// Returns the SHA-256 digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let mut hasher = Hasher::like(None);
        hasher.update(bytes);
        hasher.finish()
    }

    /// Returns the SHA-512 digest of these bytes.
    pub fn sha512_of(bytes: &[u8]) -> Self {
        let mut hasher = Hasher::Sha512(Context::new(&SHA512));
        hasher.update(bytes);
        hasher.finish()
    }

    /// Returns the digest of these bytes by this digest's algorithm, for comparison with it.
    pub fn like(&self, bytes: &[u8]) -> Self {
        match self.0 {
            Value::Sha256(_) => Self::of(bytes),
            Value::Sha512(_) => Self::sha512_of(bytes),
        }
    }

    /// Returns the name of the algorithm.
    pub fn algorithm(&self) -> &'static str {
        match self.0 {
            Value::Sha256(_) => "sha256",
            Value::Sha512(_) => "sha512",
        }
    }

    /// Returns the hex digits, as used for file names and short ids. Their number identifies the algorithm.
    pub fn hex(&self) -> String {
        let bytes: &[u8] = match &self.0 {
            Value::Sha256(bytes) => bytes,
            Value::Sha512(bytes) => bytes,
        };
        orlop_text::hex::encode(bytes)
    }

    /// Parses hex digits without an algorithm. Only lower case is valid.
    pub fn from_hex(hex: &str) -> Result<Self, InvalidDigest> {
        let value = match hex.len() {
            64 => orlop_text::hex::decode(hex).map(Value::Sha256),
            128 => orlop_text::hex::decode(hex).map(Value::Sha512),
            _ => None,
        };
        value.map(Self).ok_or_else(|| InvalidDigest(shorten(hex)))
    }

    /// Returns the path of a blob below the root of an OCI image layout.
    pub(crate) fn blob_path(&self) -> String {
        format!("blobs/{}/{}", self.algorithm(), self.hex())
    }

    /// Returns the chain id of a layer on top of the chain `parent` (OCI image specification, "Layer ChainID").
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
        text.split_once(':')
            .and_then(|(algorithm, hex)| {
                let digest = Self::from_hex(hex).ok()?;
                (digest.algorithm() == algorithm).then_some(digest)
            })
            .ok_or_else(|| InvalidDigest(shorten(text)))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm(), self.hex())
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

/// An incremental hasher of a stream.
#[derive(Clone)]
pub(crate) enum Hasher {
    Sha256(Context),
    Sha512(Context),
}

impl Hasher {
    /// Creates a hasher whose result can be compared with `expected`.
    pub(crate) fn like(expected: Option<&Digest>) -> Self {
        match expected.map(|digest| digest.0) {
            None | Some(Value::Sha256(_)) => Self::Sha256(Context::new(&SHA256)),
            Some(Value::Sha512(_)) => Self::Sha512(Context::new(&SHA512)),
        }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        let (Self::Sha256(hasher) | Self::Sha512(hasher)) = self;
        hasher.update(bytes);
    }

    pub(crate) fn finish(self) -> Digest {
        Digest(match self {
            Self::Sha256(hasher) => Value::Sha256(bytes(hasher)),
            Self::Sha512(hasher) => Value::Sha512(bytes(hasher)),
        })
    }
}

/// Returns the result of a hash algorithm as bytes.
fn bytes<const N: usize>(hasher: Context) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(hasher.finish().as_ref());
    bytes
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

fn shorten(text: &str) -> String {
    text.chars().take(80).collect()
}

fn hash_all(mut hasher: Hasher, mut from: impl std::io::Read) -> std::io::Result<Digest> {
    let mut buffer = vec![0; 1 << 20];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(hasher.finish()),
            Ok(read) => hasher.update(&buffer[..read]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
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
        let long = Digest::sha512_of(b"abc");
        assert!(long.to_string().starts_with("sha512:ddaf35a193617aba"));
        assert_eq!(long.to_string().parse(), Ok(long));
        assert_eq!(Digest::from_hex(&long.hex()), Ok(long));
        assert_eq!((digest.like(b"abc"), long.like(b"abc")), (digest, long));
        assert_eq!(Hasher::like(Some(&long)).finish(), Digest::sha512_of(b""));
    }

    #[test]
    fn upper_case_short_and_foreign_digests_are_refused() {
        for text in [
            "",
            "sha256:",
            "sha256:AB",
            "sha512:00",
            "md5:00",
            &"0".repeat(64),
        ] {
            assert!(text.parse::<Digest>().is_err(), "{text}");
        }
        let crossed = Digest::of(b"abc").to_string().replace("256", "512");
        assert!(crossed.parse::<Digest>().is_err());
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
