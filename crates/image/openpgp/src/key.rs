//! Public keys of version 4.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

use crate::algorithm::{self, name};
use crate::error::Error;
use crate::fingerprint::Fingerprint;
use crate::reader::Reader;

/// Object identifiers of curves.
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const P384: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x22];
const ED25519: &[u8] = &[0x2b, 0x06, 0x01, 0x04, 0x01, 0xda, 0x47, 0x0f, 0x01];

/// Minimum size of RSA keys; shorter ones are insecure.
const MIN_RSA_BITS: usize = 2048;
const MAX_RSA_BITS: usize = 8192;

/// A primary key or a subkey.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) fingerprint: Fingerprint,
    /// Seconds since the epoch.
    pub(crate) created: u64,
    pub(crate) algorithm: u8,
    /// The key material, or why it cannot verify signatures.
    pub(crate) material: Result<Material, String>,
    /// The bytes that signatures hash for this key.
    pub(crate) hashed: Vec<u8>,
}

/// The key material for the verification of signatures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Material {
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

impl Key {
    pub(crate) fn parse(body: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(body);
        let version = reader.byte().ok_or(Error::Truncated)?;
        if version != 4 {
            return Err(Error::Unsupported(format!("a key of version {version}")));
        }
        let malformed = || Error::Malformed("a key");
        let created = reader.u32().ok_or_else(malformed)?;
        let algorithm = reader.byte().ok_or_else(malformed)?;
        let length = u16::try_from(body.len()).map_err(|_| malformed())?;
        let hashed = [&[0x99], &length.to_be_bytes()[..], body].concat();
        let mut fingerprint = Fingerprint([0; 20]);
        let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, &hashed);
        fingerprint.0.copy_from_slice(hash.as_ref());
        Ok(Self {
            fingerprint,
            created: created.into(),
            algorithm,
            material: material(algorithm, reader),
            hashed,
        })
    }
}

fn material(kind: u8, mut reader: Reader<'_>) -> Result<Material, String> {
    let read = match kind {
        algorithm::RSA | algorithm::RSA_SIGN_ONLY => {
            let numbers = reader.number().zip(reader.number());
            numbers.map(|(modulus, exponent)| Material::Rsa {
                modulus: modulus.to_vec(),
                exponent: exponent.to_vec(),
            })
        }
        algorithm::ECDSA | algorithm::EDDSA => {
            let curve = reader.byte().and_then(|length| reader.take(length.into()));
            curve
                .zip(reader.number())
                .and_then(|(curve, point)| match curve {
                    P256 if kind == algorithm::ECDSA => Some(Material::P256(point.to_vec())),
                    P384 if kind == algorithm::ECDSA => Some(Material::P384(point.to_vec())),
                    // The first byte is the format of the point.
                    ED25519 if kind == algorithm::EDDSA => {
                        let point = point.strip_prefix(&[0x40])?;
                        (point.len() == 32).then(|| Material::Ed25519(point.to_vec()))
                    }
                    _ => None,
                })
        }
        algorithm::ED25519 => reader
            .take(32)
            .map(|point| Material::Ed25519(point.to_vec())),
        _ => None,
    };
    let Some(material) = read.filter(|_| reader.is_empty()) else {
        return Err(format!(
            "its key type ({}) is not supported; use RSA, Ed25519, or ECDSA on P-256 or P-384",
            name(kind)
        ));
    };
    if let Material::Rsa { modulus, .. } = &material {
        good_length(modulus)?;
    }
    Ok(material)
}

/// Checks that an RSA modulus, without leading zeros, is neither too short nor too long.
fn good_length(modulus: &[u8]) -> Result<(), String> {
    let zeros = modulus
        .first()
        .map_or(0, |byte| byte.leading_zeros() as usize);
    let bits = modulus.len() * 8 - zeros;
    if (MIN_RSA_BITS..=MAX_RSA_BITS).contains(&bits) {
        return Ok(());
    }
    Err(format!(
        "it is an RSA key of {bits} bits; use {MIN_RSA_BITS} to {MAX_RSA_BITS} bits"
    ))
}
