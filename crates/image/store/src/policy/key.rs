//! Locations of public keys in policies.

use std::fmt;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use orlop_sigstore::PublicKey;

use super::json::{At, Wrong};
use crate::Digest;

/// Maximum number of keys in one field.
const MAX_KEYS: usize = 64;

/// Maximum size of a key file.
const MAX_FILE: u64 = 64 << 10;

/// The location of a public key.
#[derive(Debug, Clone)]
pub(crate) enum KeySource {
    /// In a file, which is read on demand.
    File(PathBuf),
    /// In the policy itself.
    Inline(PublicKey),
}

impl KeySource {
    /// Loads the key. Blocks.
    pub(crate) fn load(&self) -> Result<PublicKey, String> {
        match self {
            Self::File(path) => read(path)
                .and_then(|pem| PublicKey::from_pem(&pem))
                .map_err(|reason| format!("the key {}: {reason}", path.display())),
            Self::Inline(key) => Ok(key.clone()),
        }
    }
}

/// Displays the location of a key, or its digest.
impl fmt::Display for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Inline(key) => write!(f, "the key with digest {}", Digest::of(key.der())),
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    orlop_fs::read_file(path, MAX_FILE).map_err(|error| error.to_string())
}

/// Parses several keys in one field.
pub(super) fn several<T>(
    value: At,
    read: impl Fn(At) -> Result<T, Wrong>,
) -> Result<Vec<T>, Wrong> {
    let place = value.place.clone();
    let keys = value.some()?;
    if keys.len() > MAX_KEYS {
        return Err(Wrong::new(&place, format!("more than {MAX_KEYS} keys")));
    }
    keys.into_iter().map(read).collect()
}

/// Parses the path of a key file.
pub(super) fn key_file(value: At) -> Result<KeySource, Wrong> {
    value.absolute_path().map(KeySource::File)
}

/// Parses a key in the policy itself.
pub(super) fn key_data(value: At) -> Result<KeySource, Wrong> {
    let place = value.place.clone();
    let key = PublicKey::from_pem(&base64(value)?);
    let key = key.map_err(|reason| Wrong::new(&place, reason))?;
    Ok(KeySource::Inline(key))
}

/// Decodes base64 data in the policy itself.
pub(super) fn base64(value: At) -> Result<Vec<u8>, Wrong> {
    let place = value.place.clone();
    let bytes = BASE64_STANDARD.decode(value.text()?);
    bytes.map_err(|error| Wrong::new(&place, format!("it is not base64: {error}")))
}
