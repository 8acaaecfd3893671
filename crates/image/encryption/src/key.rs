//! Private keys, which unwrap layer keys.

use std::fmt;

use aws_lc_rs::agreement::{self, ECDH_P256, ECDH_P384, ECDH_P521, UnparsedPublicKey};
use aws_lc_rs::rsa::{
    OAEP_SHA1_MGF1SHA1, OAEP_SHA256_MGF1SHA256, OaepPrivateDecryptingKey,
    Pkcs1PrivateDecryptingKey, PrivateDecryptingKey,
};
use zeroize::Zeroizing;

/// A private key: RSA from 2048 to 8192 bits, or on one of three curves.
pub struct PrivateKey(Kind);

enum Kind {
    Rsa {
        oaep: OaepPrivateDecryptingKey,
        pkcs1: Pkcs1PrivateDecryptingKey,
    },
    Curve(&'static Curve, agreement::PrivateKey),
}

struct Curve {
    name: &'static str,
    ecdh: &'static agreement::Algorithm,
    /// Size of a coordinate in bytes.
    length: usize,
}

static CURVES: [Curve; 3] = [
    Curve {
        name: "P-256",
        ecdh: &ECDH_P256,
        length: 32,
    },
    Curve {
        name: "P-384",
        ecdh: &ECDH_P384,
        length: 48,
    },
    Curve {
        name: "P-521",
        ecdh: &ECDH_P521,
        length: 66,
    },
];

/// The RSA padding of wrapped keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Padding {
    OaepSha1,
    OaepSha256,
    Pkcs1,
}

/// Only shows the kind of key.
impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.0 {
            Kind::Rsa { .. } => "RSA",
            Kind::Curve(curve, _) => curve.name,
        };
        write!(f, "PrivateKey({kind})")
    }
}

impl PrivateKey {
    /// Parses an RSA key in PKCS#8, if its size is supported.
    pub(crate) fn rsa(pkcs8: &[u8]) -> Option<Self> {
        // The library refuses keys of less than 2048 and more than 8192 bits.
        let key = PrivateDecryptingKey::from_pkcs8(pkcs8).ok()?;
        Some(Self(Kind::Rsa {
            oaep: OaepPrivateDecryptingKey::new(key.clone()).ok()?,
            pkcs1: Pkcs1PrivateDecryptingKey::new(key).ok()?,
        }))
    }

    /// Parses a key on a curve, in PKCS#8 or SEC 1.
    pub(crate) fn on_curve(der: &[u8]) -> Option<Self> {
        CURVES.iter().find_map(|curve| {
            let key = agreement::PrivateKey::from_private_key_der(curve.ecdh, der);
            key.ok().map(|key| Self(Kind::Curve(curve, key)))
        })
    }

    pub(crate) fn is_rsa(&self) -> bool {
        matches!(self.0, Kind::Rsa { .. })
    }

    /// Unwraps a key that was wrapped for this RSA key; returns `None` if it was wrapped for another. The library
    /// blinds the decryption.
    pub(crate) fn unwrap_rsa(
        &self,
        padding: Padding,
        wrapped: &[u8],
    ) -> Option<Zeroizing<Vec<u8>>> {
        let Kind::Rsa { oaep, pkcs1 } = &self.0 else {
            return None;
        };
        let mut opened = Zeroizing::new(vec![0; oaep.min_output_size()]);
        let plain = match padding {
            Padding::OaepSha1 => oaep.decrypt(&OAEP_SHA1_MGF1SHA1, wrapped, &mut opened, None),
            Padding::OaepSha256 => {
                oaep.decrypt(&OAEP_SHA256_MGF1SHA256, wrapped, &mut opened, None)
            }
            Padding::Pkcs1 => pkcs1.decrypt(wrapped, &mut opened),
        };
        let length = plain.ok()?.len();
        opened.truncate(length);
        Some(opened)
    }

    /// Computes the ECDH secret of this key and a public key on the same curve. A point that is not on the curve is
    /// refused.
    pub(crate) fn agree(&self, curve: &str, x: &[u8], y: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let Kind::Curve(own, key) = &self.0 else {
            return None;
        };
        if own.name != curve || [x.len(), y.len()] != [own.length; 2] {
            return None;
        }
        // The form of an uncompressed point in SEC 1.
        let point = [&[4], x, y].concat();
        let public = UnparsedPublicKey::new(own.ecdh, point);
        agreement::agree(key, public, (), |shared| {
            Ok(Zeroizing::new(shared.to_vec()))
        })
        .ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_that_are_not_on_the_curve_are_refused() {
        for curve in &CURVES {
            let key = agreement::PrivateKey::generate(curve.ecdh).expect("a key");
            let public = key.compute_public_key().expect("its point");
            let (x, y) = public.as_ref()[1..].split_at(curve.length);
            let (x, y) = (x.to_vec(), y.to_vec());
            let key = PrivateKey(Kind::Curve(curve, key));
            let shared = key.agree(curve.name, &x, &y).expect("a point of the curve");
            assert_eq!(shared.len(), curve.length);
            let mut other = y.clone();
            other[curve.length - 1] ^= 1;
            assert!(key.agree(curve.name, &x, &other).is_none());
            let zeros = vec![0; curve.length];
            assert!(key.agree(curve.name, &zeros, &zeros).is_none());
            assert!(key.agree(curve.name, &x, &[]).is_none());
            assert!(
                key.agree(curve.name, &x[1..], &[&y[..], &[0]].concat())
                    .is_none()
            );
            assert!(key.agree("P-224", &x, &y).is_none());
        }
    }
}
