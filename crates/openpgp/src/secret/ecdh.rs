//! Keys of ECDH (RFC 9580, 11.4 and 11.5): what they have in common with another, and what is wrapped by that.

use aes_kw::KeyInit as _;
use aes_kw::{KwAes128, KwAes192, KwAes256};
use curve25519_dalek::montgomery::MontgomeryPoint;
use ring::digest::{Algorithm, Context, SHA256, SHA384, SHA512};
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use crate::cfb::Cipher;
use crate::key::{CURVE25519, Fingerprint, P256, P384, P521, algorithm};

/// What is hashed of whom it is for, as the standard words it.
const SENDER: &[u8] = b"Anonymous Sender    ";
/// Before a point of Curve25519.
const NATIVE: u8 = 0x40;

/// What is public of a key, without its point.
#[derive(Clone, Copy)]
pub(crate) struct Public<'a> {
    curve: &'a [u8],
    hash: &'static Algorithm,
    cipher: Cipher,
    parameters: &'a [u8],
    fingerprint: Fingerprint,
}

/// A private key.
pub(crate) struct Ecdh {
    scalar: Scalar,
    hash: &'static Algorithm,
    cipher: Cipher,
    /// What is hashed behind the secret that both have.
    about: Vec<u8>,
}

enum Scalar {
    Curve25519(Zeroizing<[u8; 32]>),
    P256(p256::SecretKey),
    P384(p384::SecretKey),
    P521(p521::SecretKey),
}

impl<'a> Public<'a> {
    pub(crate) fn parse(
        curve: &'a [u8],
        parameters: &'a [u8],
        fingerprint: Fingerprint,
    ) -> Result<Self, String> {
        if ![CURVE25519, P256, P384, P521].contains(&curve) {
            return Err(
                "its curve is not supported; use Curve25519, P-256, P-384 or P-521".to_owned(),
            );
        }
        let [1, hash, cipher] = parameters else {
            return Err("its key derivation is unknown".to_owned());
        };
        let hash = match hash {
            8 => &SHA256,
            9 => &SHA384,
            10 => &SHA512,
            other => {
                return Err(format!(
                    "its key derivation uses hash {other}, which is not supported"
                ));
            }
        };
        let cipher = Cipher::of(*cipher);
        let cipher = cipher.map_err(|other| {
            format!(
                "its key wrapping uses {}, which is not supported",
                other.name
            )
        })?;
        Ok(Self {
            curve,
            hash,
            cipher,
            parameters,
            fingerprint,
        })
    }

    /// The key, by its private number.
    pub(crate) fn with(&self, number: &[u8]) -> Option<Ecdh> {
        let scalar = match self.curve {
            CURVE25519 => {
                let mut bytes = Zeroizing::new([0; 32]);
                padded(number, &mut *bytes)?;
                // It is written backwards.
                bytes.reverse();
                Scalar::Curve25519(bytes)
            }
            P256 => {
                let mut bytes = Zeroizing::new([0; 32]);
                padded(number, &mut *bytes)?;
                Scalar::P256(p256::SecretKey::from_slice(&*bytes).ok()?)
            }
            P384 => {
                let mut bytes = Zeroizing::new([0; 48]);
                padded(number, &mut *bytes)?;
                Scalar::P384(p384::SecretKey::from_slice(&*bytes).ok()?)
            }
            _ => {
                let mut bytes = Zeroizing::new([0; 66]);
                padded(number, &mut *bytes)?;
                Scalar::P521(p521::SecretKey::from_slice(&*bytes).ok()?)
            }
        };
        let length = |bytes: &[u8]| u8::try_from(bytes.len()).ok();
        let about = [
            &[length(self.curve)?],
            self.curve,
            &[algorithm::ECDH, length(self.parameters)?],
            self.parameters,
            SENDER,
            &self.fingerprint.0,
        ];
        Some(Ecdh {
            scalar,
            hash: self.hash,
            cipher: self.cipher,
            about: about.concat(),
        })
    }
}

/// A number with zeros in front of it.
fn padded(number: &[u8], into: &mut [u8]) -> Option<()> {
    let zeros = into.len().checked_sub(number.len())?;
    into.get_mut(zeros..)?.copy_from_slice(number);
    Some(())
}

impl Ecdh {
    /// What was wrapped with a key that was made for that, whose point stands before it.
    pub(crate) fn unwrap(&self, point: &[u8], wrapped: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let shared = self.scalar.agree(point)?;
        let mut hash = Context::new(self.hash);
        hash.update(&1_u32.to_be_bytes());
        hash.update(&shared);
        hash.update(&self.about);
        let hash = hash.finish();
        let key = hash.as_ref().get(..self.cipher.key_length())?;
        // Eight bytes of check besides what is wrapped.
        let mut opened = Zeroizing::new(vec![0; wrapped.len().checked_sub(8)?]);
        let is_good = match self.cipher {
            Cipher::Aes128 => KwAes128::new_from_slice(key)
                .ok()?
                .unwrap_key(wrapped, &mut opened)
                .is_ok(),
            Cipher::Aes192 => KwAes192::new_from_slice(key)
                .ok()?
                .unwrap_key(wrapped, &mut opened)
                .is_ok(),
            Cipher::Aes256 => KwAes256::new_from_slice(key)
                .ok()?
                .unwrap_key(wrapped, &mut opened)
                .is_ok(),
        };
        if !is_good {
            return None;
        }
        // As many bytes as each of them says (RFC 8018).
        let count = *opened.last()?;
        let length = opened.len().checked_sub(count.into())?;
        if count == 0 || opened.get(length..)?.iter().any(|byte| *byte != count) {
            return None;
        }
        opened.truncate(length);
        Some(opened)
    }
}

impl Scalar {
    fn agree(&self, point: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        macro_rules! agree {
            ($curve:ident, $secret:expr) => {{
                let public = $curve::PublicKey::from_sec1_bytes(point).ok()?;
                let shared =
                    $curve::ecdh::diffie_hellman($secret.to_nonzero_scalar(), public.as_affine());
                Zeroizing::new(shared.raw_secret_bytes().to_vec())
            }};
        }
        Some(match self {
            Self::Curve25519(scalar) => {
                let (prefix, point) = point.split_first()?;
                let point = (*prefix == NATIVE).then_some(point)?.try_into().ok()?;
                let shared = Zeroizing::new(MontgomeryPoint(point).mul_clamped(**scalar).0);
                // Whoever sent such a point knows what comes of it with any key.
                if bool::from(shared.ct_eq(&[0; 32])) {
                    return None;
                }
                Zeroizing::new(shared.to_vec())
            }
            Self::P256(secret) => agree!(p256, secret),
            Self::P384(secret) => agree!(p384, secret),
            Self::P521(secret) => agree!(p521, secret),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn public(curve: &'static [u8], parameters: &'static [u8]) -> Result<Public<'static>, String> {
        Public::parse(curve, parameters, Fingerprint([7; 20]))
    }

    #[test]
    fn points_that_give_a_secret_away_are_refused() {
        let key = public(CURVE25519, &[1, 8, 7])
            .unwrap()
            .with(&[9; 32])
            .unwrap();
        let mut point = [0; 33];
        point[0] = NATIVE;
        for low in [0, 1] {
            point[1] = low;
            assert!(key.scalar.agree(&point).is_none());
        }
        point[1] = 9;
        assert!(key.scalar.agree(&point).is_some());
        point[0] = 4;
        assert!(key.scalar.agree(&point).is_none());
        let key = public(P256, &[1, 8, 7]).unwrap().with(&[9; 32]).unwrap();
        // Not on the curve.
        assert!(key.scalar.agree(&[4; 65]).is_none());
    }

    #[test]
    fn keys_that_are_none_and_other_parameters_are_refused() {
        for (parameters, reason) in [
            (&[1, 8][..], "its key derivation is unknown"),
            (&[2, 8, 7], "its key derivation is unknown"),
            (&[1, 2, 7], "uses hash 2"),
            (&[1, 8, 2], "TripleDES"),
        ] {
            let error = public(P256, parameters).map(drop).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
        assert!(public(&[1, 2], &[1, 8, 7]).is_err());
        let p256 = public(P256, &[1, 8, 7]).unwrap();
        assert!(p256.with(&[1; 33]).is_none() && p256.with(&[]).is_none());
        assert!(p256.with(&[0xff; 32]).is_none(), "more than the order");
    }
}
