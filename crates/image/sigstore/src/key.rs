//! Public keys from PEM, and verification with them.

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{SignatureVerificationAlgorithm, SubjectPublicKeyInfoDer};
use webpki::RawPublicKeyEntity;

use crate::algorithms::{OF_AUTHORITIES, OF_SIGNERS};
use crate::der;
use crate::hash::sha256;

/// The algorithm of an Ed25519 key (RFC 8410), as DER.
const ED25519: [u8; 7] = [der::SEQUENCE, 5, der::OID, 3, 0x2b, 0x65, 0x70];

/// A public key for the verification of signatures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey {
    spki: SubjectPublicKeyInfoDer<'static>,
}

impl PublicKey {
    /// Parses a PEM text with one public key.
    pub fn from_pem(pem: &[u8]) -> Result<Self, String> {
        let mut found = SubjectPublicKeyInfoDer::pem_slice_iter(pem);
        let malformed = |error| format!("it is not PEM: {error}");
        let spki = found
            .next()
            .ok_or("it has no \"PUBLIC KEY\" block")?
            .map_err(malformed)?;
        if found.next().is_some() {
            return Err("it has more than one key; use one file for each key".to_owned());
        }
        Self::from_der(spki.to_vec())
    }

    /// Parses a key's `SubjectPublicKeyInfo`.
    pub fn from_der(spki: Vec<u8>) -> Result<Self, String> {
        let key = Self { spki: spki.into() };
        let entity = key.entity()?;
        let fits = |algorithm: &&dyn SignatureVerificationAlgorithm| {
            let tried = entity.verify_signature(*algorithm, b"", b"");
            !matches!(
                tried,
                Err(webpki::Error::UnsupportedSignatureAlgorithmForPublicKeyContext(_))
            )
        };
        if !OF_SIGNERS.iter().any(fits) {
            return Err(
                "its key type is not supported; use P-256, P-384, Ed25519 or RSA".to_owned(),
            );
        }
        Ok(key)
    }

    /// Returns the key's `SubjectPublicKeyInfo`.
    pub fn der(&self) -> &[u8] {
        self.spki.as_ref()
    }

    /// Reports whether the key has signed these bytes.
    pub fn has_signed(&self, bytes: &[u8], signature: &[u8]) -> bool {
        self.entity().is_ok_and(|key| {
            OF_SIGNERS
                .iter()
                .any(|algorithm| key.verify_signature(*algorithm, bytes, signature).is_ok())
        })
    }

    /// Reports whether the key has signed these bytes with an algorithm of authorities.
    pub(crate) fn has_signed_as_authority(&self, bytes: &[u8], signature: &[u8]) -> bool {
        self.entity().is_ok_and(|key| {
            let mut ways = OF_AUTHORITIES.iter();
            ways.any(|way| key.verify_signature(*way, bytes, signature).is_ok())
        })
    }

    /// Returns the ID of a log: the digest of its key (RFC 6962, 3.2).
    pub(crate) fn id(&self) -> [u8; 32] {
        sha256(&[self.der()])
    }

    /// Returns a log's ID in the signed-note (checkpoint) form: a hash over its name and key. `None` unless the key is
    /// Ed25519.
    pub(crate) fn named_id(&self, name: &str) -> Option<[u8; 32]> {
        let mut fields = der::only(self.der(), der::SEQUENCE).ok()?.values();
        let algorithm = fields.read().ok()?;
        let bits = fields.read().ok()?.content;
        // The first byte is the number of unused bits in the last byte: none.
        let key = bits.get(1..).filter(|_| algorithm.whole == ED25519)?;
        // The byte after the newline is the key type.
        Some(sha256(&[name.as_bytes(), b"\n\x01", key]))
    }

    fn entity(&self) -> Result<RawPublicKeyEntity<'_>, String> {
        RawPublicKeyEntity::try_from(&self.spki)
            .map_err(|error| format!("it is malformed: {error}"))
    }
}
