//! Keys that sign, without a program.

use rcgen::{KeyPair, PublicKeyData as _, SigningKey as _};

/// A key pair: ECDSA on P-256, which signs with SHA-256.
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
    /// Makes one.
    pub fn new() -> Self {
        Self {
            pair: KeyPair::generate().expect("make a key"),
        }
    }

    /// Makes one of the kind Ed25519.
    pub fn ed25519() -> Self {
        Self {
            pair: KeyPair::generate_for(&rcgen::PKCS_ED25519).expect("make a key"),
        }
    }

    /// Signs.
    pub fn sign(&self, bytes: &[u8]) -> Vec<u8> {
        self.pair.sign(bytes).expect("sign")
    }

    /// The public key, in PEM.
    pub fn pem(&self) -> String {
        self.pair.public_key_pem()
    }

    /// The private key, in PEM.
    pub fn private_pem(&self) -> String {
        self.pair.serialize_pem()
    }

    /// The public key's `SubjectPublicKeyInfo`.
    pub fn der(&self) -> Vec<u8> {
        self.pair.subject_public_key_info()
    }

    /// The bytes of the public key alone.
    pub fn raw(&self) -> &[u8] {
        self.pair.public_key_raw()
    }
}
