//! Public keys: read from PEM, asked whether they have signed something.

use std::fmt;
use std::path::{Path, PathBuf};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{SignatureVerificationAlgorithm, SubjectPublicKeyInfoDer};
use webpki::{RawPublicKeyEntity, ring};

use crate::Digest;

/// No key is larger.
const MAX_FILE: u64 = 64 << 10;

/// How cosign signs, by the kind of key. RSA and P-384 keys have been used in two ways.
const ALGORITHMS: [&dyn SignatureVerificationAlgorithm; 6] = [
    ring::ECDSA_P256_SHA256,
    ring::ECDSA_P384_SHA256,
    ring::ECDSA_P384_SHA384,
    ring::ED25519,
    ring::RSA_PKCS1_2048_8192_SHA256,
    ring::RSA_PSS_2048_8192_SHA256_LEGACY_KEY,
];

/// Where a key is.
#[derive(Debug, Clone)]
pub(crate) enum KeySource {
    /// In a file, which is read when it is needed.
    File(PathBuf),
    /// In the policy itself.
    Inline(PublicKey),
}

impl KeySource {
    /// The key. Blocks.
    pub(crate) fn load(&self) -> Result<PublicKey, String> {
        match self {
            Self::File(path) => read(path)
                .and_then(|pem| PublicKey::from_pem(&pem))
                .map_err(|reason| format!("the key {}: {reason}", path.display())),
            Self::Inline(key) => Ok(key.clone()),
        }
    }
}

/// What people know a key by.
impl fmt::Display for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Inline(key) => write!(f, "the key with digest {}", Digest::of(key.spki.as_ref())),
        }
    }
}

/// A key that signatures can be verified with.
#[derive(Debug, Clone)]
pub(crate) struct PublicKey {
    spki: SubjectPublicKeyInfoDer<'static>,
}

impl PublicKey {
    /// Reads the one public key of a PEM text.
    pub(crate) fn from_pem(pem: &[u8]) -> Result<Self, String> {
        let mut found = SubjectPublicKeyInfoDer::pem_slice_iter(pem);
        let malformed = |error| format!("it is not PEM: {error}");
        let spki = found
            .next()
            .ok_or("there is no \"PUBLIC KEY\" in it")?
            .map_err(malformed)?;
        if found.next().is_some() {
            return Err("it holds more than one key; name each by a file of its own".to_owned());
        }
        let key = Self { spki };
        let entity = key.entity()?;
        let fits = |algorithm: &&dyn SignatureVerificationAlgorithm| {
            let tried = entity.verify_signature(*algorithm, b"", b"");
            !matches!(
                tried,
                Err(webpki::Error::UnsupportedSignatureAlgorithmForPublicKeyContext(_))
            )
        };
        if !ALGORITHMS.iter().any(fits) {
            return Err("its kind is not supported; P-256, P-384, Ed25519 and RSA are".to_owned());
        }
        Ok(key)
    }

    /// Whether the key has signed these bytes.
    pub(crate) fn has_signed(&self, bytes: &[u8], signature: &[u8]) -> bool {
        self.entity().is_ok_and(|key| {
            ALGORITHMS
                .iter()
                .any(|algorithm| key.verify_signature(*algorithm, bytes, signature).is_ok())
        })
    }

    fn entity(&self) -> Result<RawPublicKeyEntity<'_>, String> {
        RawPublicKeyEntity::try_from(&self.spki)
            .map_err(|error| format!("it is malformed: {error}"))
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    orlop_disk::read_file(path, MAX_FILE).map_err(|error| error.to_string())
}
