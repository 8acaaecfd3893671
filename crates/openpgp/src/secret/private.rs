//! What is private of a key, and what it unwraps.

use rsa::traits::PublicKeyParts as _;
use rsa::{BoxedUint, Pkcs1v15Encrypt};
use zeroize::Zeroizing;

use super::ecdh::{self, Ecdh};
use crate::key::{Key, algorithm, good_length, name};
use crate::reader::Reader;

/// A private key.
pub(crate) enum Private {
    Rsa(Box<rsa::PrivateKey>),
    Ecdh(Box<Ecdh>),
}

/// What is public of a key that can open messages.
pub(crate) enum Kind<'a> {
    Rsa {
        modulus: &'a [u8],
        exponent: &'a [u8],
    },
    Ecdh(ecdh::Public<'a>),
}

/// The public part of a private key's packet, and the rest; nothing where it is not known how long that is.
pub(crate) fn split(body: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut reader = Reader::new(body);
    let (_version, _created) = (reader.byte()?, reader.u32()?);
    let numbers = match reader.byte()? {
        algorithm::RSA | algorithm::RSA_ENCRYPT_ONLY | algorithm::RSA_SIGN_ONLY => 2,
        algorithm::ELGAMAL => 3,
        algorithm::DSA => 4,
        algorithm::ECDSA | algorithm::EDDSA => {
            skip(&mut reader)?;
            1
        }
        algorithm::ECDH => {
            skip(&mut reader)?;
            reader.number()?;
            skip(&mut reader)?;
            0
        }
        kind => {
            let length = match kind {
                algorithm::X25519 | algorithm::ED25519 => 32,
                algorithm::X448 => 56,
                algorithm::ED448 => 57,
                _ => return None,
            };
            reader.take(length)?;
            0
        }
    };
    for _ in 0..numbers {
        reader.number()?;
    }
    body.split_at_checked(body.len() - reader.left())
}

/// Bytes with their count before them.
fn skip<'a>(reader: &mut Reader<'a>) -> Option<&'a [u8]> {
    let length = reader.byte()?;
    reader.take(length.into())
}

impl<'a> Kind<'a> {
    /// What a key can open; or why it opens nothing.
    pub(crate) fn of(key: &Key, public: &'a [u8]) -> Result<Self, String> {
        let mut reader = Reader::new(public);
        // The version, the time, the algorithm.
        let malformed = || "it is malformed".to_owned();
        reader.take(6).ok_or_else(malformed)?;
        match key.algorithm {
            algorithm::RSA | algorithm::RSA_ENCRYPT_ONLY => {
                let numbers = reader.number().zip(reader.number());
                let (modulus, exponent) = numbers.ok_or_else(malformed)?;
                good_length(modulus)?;
                Ok(Self::Rsa { modulus, exponent })
            }
            algorithm::ECDH => {
                let curve = skip(&mut reader).ok_or_else(malformed)?;
                reader.number().ok_or_else(malformed)?;
                let parameters = skip(&mut reader).ok_or_else(malformed)?;
                ecdh::Public::parse(curve, parameters, key.fingerprint).map(Self::Ecdh)
            }
            algorithm::ELGAMAL | algorithm::X25519 | algorithm::X448 => Err(format!(
                "its key type ({}) is not supported; use RSA, or ECDH on Curve25519, P-256, P-384 or P-521",
                name(key.algorithm)
            )),
            signs => Err(format!("{} can only sign", name(signs))),
        }
    }

    /// The key, by its private numbers.
    pub(crate) fn with(&self, secret: &[u8]) -> Option<Private> {
        let mut reader = Reader::new(secret);
        let private = match self {
            Self::Rsa { modulus, exponent } => {
                let mut next = || reader.number();
                let (d, p, q) = (next()?, next()?, next()?);
                // The inverse of one prime by the other, which is made anew.
                next()?;
                let bits = u32::try_from(modulus.len() * 8).ok()?;
                let number = |bytes: &[u8]| BoxedUint::from_be_slice(bytes, bits).ok();
                let prime = |bytes: &[u8]| {
                    let bits = bits.div_ceil(2).next_multiple_of(8);
                    BoxedUint::from_be_slice(bytes, bits).ok()
                };
                let exponent = BoxedUint::from_be_slice_vartime(exponent);
                let primes = vec![prime(p)?, prime(q)?];
                let key = rsa::PrivateKey::from_components(
                    number(modulus)?,
                    exponent,
                    number(d)?,
                    primes,
                );
                Private::Rsa(Box::new(key.ok()?))
            }
            Self::Ecdh(public) => Private::Ecdh(Box::new(public.with(reader.number()?)?)),
        };
        reader.is_empty().then_some(private)
    }
}

impl Private {
    /// What was wrapped for it; nothing, or anything, if it was wrapped for another.
    pub(crate) fn unwrap(&self, algorithm: u8, wrapped: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let mut reader = Reader::new(wrapped);
        match (self, algorithm) {
            (Self::Rsa(key), algorithm::RSA | algorithm::RSA_ENCRYPT_ONLY) => {
                let number = reader.number().filter(|_| reader.is_empty())?;
                let zeros = key.size().checked_sub(number.len())?;
                let padded = [&vec![0; zeros], number].concat();
                key.decrypt(Pkcs1v15Encrypt, &padded)
                    .ok()
                    .map(Zeroizing::new)
            }
            (Self::Ecdh(key), algorithm::ECDH) => {
                let point = reader.number()?;
                let bytes = skip(&mut reader).filter(|_| reader.is_empty())?;
                key.unwrap(point, bytes)
            }
            _ => None,
        }
    }
}
