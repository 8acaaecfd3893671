//! Verification of signatures; the arithmetic is that of AWS-LC.

use aws_lc_rs::digest::{Algorithm, SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA384, SHA512, digest};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA384_ASN1, ECDSA_P384_SHA256_ASN1, ECDSA_P384_SHA384_ASN1,
    ED25519, RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents,
    UnparsedPublicKey, VerificationAlgorithm,
};

use crate::algorithm::{self, name};
use crate::key::{Key, Material};
use crate::reader::Reader;
use crate::signature::Signature;

/// The result of a failed verification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The signature is wrong.
    Wrong,
    /// Other bytes may have the same hash.
    Weak(&'static str),
    /// The algorithm or key is not supported.
    Unsupported(String),
}

/// The signed object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum About {
    /// Bytes that any third party may have chosen.
    Data,
    /// Keys of the signer. An old hash is sufficient: an attacker with a collision would have had to create the
    /// signer's key.
    OwnKeys,
}

/// Hash algorithms by their numbers (RFC 9580, 9.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hash {
    Sha1,
    Sha256,
    Sha384,
    Sha512,
}

impl Hash {
    fn of(number: u8, about: About) -> Result<Self, Fault> {
        match number {
            1 => Err(Fault::Weak("MD5")),
            2 if about == About::OwnKeys => Ok(Self::Sha1),
            2 => Err(Fault::Weak("SHA-1")),
            3 => Err(Fault::Weak("RIPEMD-160")),
            8 => Ok(Self::Sha256),
            9 => Ok(Self::Sha384),
            10 => Ok(Self::Sha512),
            11 => Err(Fault::Unsupported("a signature with SHA-224".to_owned())),
            other => Err(Fault::Unsupported(format!("a signature with hash {other}"))),
        }
    }

    fn algorithm(self) -> &'static Algorithm {
        match self {
            Self::Sha1 => &SHA1_FOR_LEGACY_USE_ONLY,
            Self::Sha256 => &SHA256,
            Self::Sha384 => &SHA384,
            Self::Sha512 => &SHA512,
        }
    }
}

/// Verifies the key's signature of the concatenated parts.
pub(crate) fn verify(
    key: &Key,
    signature: &Signature,
    parts: &[&[u8]],
    about: About,
) -> Result<(), Fault> {
    let hash = Hash::of(signature.hash, about)?;
    let material = key.material.as_ref();
    let material = material.map_err(|reason| Fault::Unsupported(format!("the key: {reason}")))?;
    if !same_kind(key.algorithm, signature.algorithm) {
        return Err(Fault::Wrong);
    }
    let message = [&parts.concat(), &signature.trailer[..]].concat();
    let hashed = digest(hash.algorithm(), &message);
    if !hashed.as_ref().starts_with(&signature.beginning) {
        return Err(Fault::Wrong);
    }
    let mut values = Reader::new(&signature.values);
    let is_good = match material {
        Material::Rsa { modulus, exponent } => {
            let parameters: &RsaParameters = match hash {
                Hash::Sha1 => &RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY,
                Hash::Sha256 => &RSA_PKCS1_2048_8192_SHA256,
                Hash::Sha384 => &RSA_PKCS1_2048_8192_SHA384,
                Hash::Sha512 => &RSA_PKCS1_2048_8192_SHA512,
            };
            let signed = values.number().and_then(|it| padded(it, modulus.len()));
            let key = RsaPublicKeyComponents {
                n: modulus,
                e: exponent,
            };
            signed.is_some_and(|signed| key.verify(parameters, &message, &signed).is_ok())
        }
        Material::P256(point) => {
            let how = match hash {
                Hash::Sha256 => &ECDSA_P256_SHA256_ASN1,
                Hash::Sha384 => &ECDSA_P256_SHA384_ASN1,
                Hash::Sha1 | Hash::Sha512 => return Err(unsupported(hash, "P-256")),
            };
            ecdsa(how, point, &message, &mut values)
        }
        Material::P384(point) => {
            let how = match hash {
                Hash::Sha256 => &ECDSA_P384_SHA256_ASN1,
                Hash::Sha384 => &ECDSA_P384_SHA384_ASN1,
                Hash::Sha1 | Hash::Sha512 => return Err(unsupported(hash, "P-384")),
            };
            ecdsa(how, point, &message, &mut values)
        }
        Material::Ed25519(point) => {
            let signed = if key.algorithm == algorithm::EDDSA {
                let halves = values.number().zip(values.number());
                halves.and_then(|(r, s)| Some([padded(r, 32)?, padded(s, 32)?].concat()))
            } else {
                values.take(64).map(<[u8]>::to_vec)
            };
            let key = UnparsedPublicKey::new(&ED25519, point);
            // The signature is that of the hash.
            signed.is_some_and(|signed| key.verify(hashed.as_ref(), &signed).is_ok())
        }
    };
    if is_good && values.is_empty() {
        Ok(())
    } else {
        Err(Fault::Wrong)
    }
}

/// RSA has two algorithm numbers.
fn same_kind(key: u8, signature: u8) -> bool {
    let is_rsa = |kind| [algorithm::RSA, algorithm::RSA_SIGN_ONLY].contains(&kind);
    key == signature || (is_rsa(key) && is_rsa(signature))
}

fn unsupported(hash: Hash, curve: &str) -> Fault {
    let kind = name(algorithm::ECDSA);
    Fault::Unsupported(format!("a signature with {kind} on {curve} and {hash:?}"))
}

/// Pads a number with leading zeros.
fn padded(number: &[u8], length: usize) -> Option<Vec<u8>> {
    let zeros = length.checked_sub(number.len())?;
    Some([&vec![0; zeros], number].concat())
}

fn ecdsa(
    how: &'static dyn VerificationAlgorithm,
    point: &[u8],
    message: &[u8],
    values: &mut Reader<'_>,
) -> bool {
    let Some((r, s)) = values.number().zip(values.number()) else {
        return false;
    };
    let Some(signed) = der(r, s) else {
        return false;
    };
    UnparsedPublicKey::new(how, point)
        .verify(message, &signed)
        .is_ok()
}

/// Encodes two numbers in ASN.1. The supported curves need no long form of lengths.
fn der(r: &[u8], s: &[u8]) -> Option<Vec<u8>> {
    let mut numbers = Vec::new();
    for number in [r, s] {
        // Without a leading zero, the number would be negative.
        let sign = number.first().is_none_or(|byte| byte & 0x80 != 0);
        let length = u8::try_from(number.len() + usize::from(sign)).ok()?;
        numbers.extend([2, length]);
        numbers.extend(sign.then_some(0));
        numbers.extend_from_slice(number);
    }
    let length = u8::try_from(numbers.len())
        .ok()
        .filter(|length| *length < 0x80)?;
    Some([&[0x30, length], &numbers[..]].concat())
}
