//! Private keys, and what they unwrap.

use std::fmt;

use rsa::traits::PublicKeyParts as _;
use rsa::{Oaep, Pkcs1v15Encrypt};
use sha1::Sha1;
use sha2::Sha256;
use zeroize::Zeroizing;

/// Shorter ones can be broken.
const SHORTEST_RSA: usize = 2048;
/// Longer ones take seconds.
const LONGEST_RSA: usize = 8192;

/// A key that opens layers.
pub enum PrivateKey {
    /// RSA, from 2048 to 8192 bits.
    Rsa(Box<rsa::PrivateKey>),
    /// On the curve P-256.
    P256(p256::SecretKey),
    /// On the curve P-384.
    P384(p384::SecretKey),
    /// On the curve P-521.
    P521(p521::SecretKey),
}

/// How RSA keys wrap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Padding {
    OaepSha1,
    OaepSha256,
    Pkcs1,
}

/// Its kind, and nothing more.
impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self {
            Self::Rsa(_) => "RSA",
            Self::P256(_) => "P-256",
            Self::P384(_) => "P-384",
            Self::P521(_) => "P-521",
        };
        write!(f, "PrivateKey({kind})")
    }
}

impl PrivateKey {
    /// What was wrapped for this RSA key; nothing if it was wrapped for another.
    pub(crate) fn unwrap_rsa(
        &self,
        padding: Padding,
        wrapped: &[u8],
    ) -> Option<Zeroizing<Vec<u8>>> {
        let Self::Rsa(key) = self else { return None };
        let opened = match padding {
            Padding::OaepSha1 => key.decrypt(Oaep::<Sha1>::new(), wrapped),
            Padding::OaepSha256 => key.decrypt(Oaep::<Sha256>::new(), wrapped),
            Padding::Pkcs1 => key.decrypt(Pkcs1v15Encrypt, wrapped),
        };
        opened.ok().map(Zeroizing::new)
    }

    /// What this key and the public one of somebody have in common, if they are of the same curve.
    pub(crate) fn agree(&self, curve: &str, x: &[u8], y: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        // As SEC 1 writes a point that is not compressed.
        let point = [&[4], x, y].concat();
        macro_rules! agree {
            ($curve:ident, $secret:expr) => {{
                let public = $curve::PublicKey::from_sec1_bytes(&point).ok()?;
                let shared =
                    $curve::ecdh::diffie_hellman($secret.to_nonzero_scalar(), public.as_affine());
                Zeroizing::new(shared.raw_secret_bytes().to_vec())
            }};
        }
        Some(match (self, curve) {
            (Self::P256(secret), "P-256") => agree!(p256, secret),
            (Self::P384(secret), "P-384") => agree!(p384, secret),
            (Self::P521(secret), "P-521") => agree!(p521, secret),
            _ => return None,
        })
    }
}

/// One that is neither weak nor slow.
pub(crate) fn rsa(key: rsa::PrivateKey) -> Option<PrivateKey> {
    let bits = key.n().bit_width() as usize;
    (SHORTEST_RSA..=LONGEST_RSA)
        .contains(&bits)
        .then(|| PrivateKey::Rsa(Box::new(key)))
}

#[cfg(test)]
mod tests {
    #[test]
    fn rsa_keys_decrypt_with_blinding() {
        // The crate has this method, and blinds, with its feature `getrandom` only.
        let _ = rsa::PublicKey::pkcs1v15_encrypt;
    }
}
