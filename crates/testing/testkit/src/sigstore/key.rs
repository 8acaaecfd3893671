//! Signing keys without an external program.

use rcgen::{KeyPair, PublicKeyData as _, SigningKey as _};

/// A key pair: ECDSA on P-256 with SHA-256, or Ed25519.
#[derive(Debug)]
pub struct Key {
    pub(super) pair: KeyPair,
}

impl Default for Key {
    fn default() -> Self {
        Self::new()
    }
}

impl Key {
    /// Creates an ECDSA key.
    pub fn new() -> Self {
        Self {
            pair: KeyPair::generate().expect("make a key"),
        }
    }

    /// Creates an Ed25519 key.
    pub fn ed25519() -> Self {
        Self {
            pair: KeyPair::generate_for(&rcgen::PKCS_ED25519).expect("make a key"),
        }
    }

    /// Signs.
    pub fn sign(&self, bytes: &[u8]) -> Vec<u8> {
        self.pair.sign(bytes).expect("sign")
    }

    /// Returns the public key in PEM.
    pub fn pem(&self) -> String {
        self.pair.public_key_pem()
    }

    /// Returns the private key in PEM.
    pub fn private_pem(&self) -> String {
        self.pair.serialize_pem()
    }

    /// Returns the public key as `SubjectPublicKeyInfo`.
    pub fn der(&self) -> Vec<u8> {
        self.pair.subject_public_key_info()
    }

    /// Returns the raw bytes of the public key.
    pub fn raw(&self) -> &[u8] {
        self.pair.public_key_raw()
    }
}
