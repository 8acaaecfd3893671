//! The private part of a key, behind a passphrase or not (RFC 9580, 3.7.2 and 5.5.3).

use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use super::SecretKeyError;
use super::s2k::{Described, S2k};
use crate::Error;
use crate::cfb::{BLOCK, Cipher};
use crate::reader::Reader;

/// Keys with a passphrase in one file; each takes up to half a second.
pub(crate) const MAX_UNLOCKED: usize = 16;

/// The private part of a key as it is in a file.
#[derive(Debug)]
pub(crate) enum Locked<'a> {
    Open(&'a [u8]),
    Closed {
        check: Check,
        cipher: Cipher,
        s2k: S2k,
        start: [u8; BLOCK],
        bytes: &'a [u8],
    },
    Elsewhere,
}

/// What tells a right passphrase from a wrong one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Check {
    Sum,
    Sha1,
}

/// What is there when it is open.
pub(crate) enum Unlock {
    Open(Zeroizing<Vec<u8>>),
    /// On a card, or left out.
    Elsewhere,
}

impl<'a> Locked<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(bytes);
        let unsupported = |what: &str| Error::Unsupported(format!("passphrase protection {what}"));
        let check = match reader.byte().ok_or(Error::Truncated)? {
            0 => return Ok(Self::Open(reader.rest())),
            254 => Check::Sha1,
            255 => Check::Sum,
            253 => return Err(unsupported("with AEAD")),
            _ => return Err(unsupported("in the format of PGP 2")),
        };
        let cipher = reader.byte().ok_or(Error::Truncated)?;
        let s2k = match S2k::parse(&mut reader)? {
            Described::S2k(s2k) => s2k,
            Described::Elsewhere => return Ok(Self::Elsewhere),
        };
        let cipher = Cipher::of(cipher);
        let cipher = cipher.map_err(|other| unsupported(&format!("with {}", other.name)))?;
        Ok(Self::Closed {
            check,
            cipher,
            s2k,
            start: reader.array().ok_or(Error::Truncated)?,
            bytes: reader.rest(),
        })
    }

    pub(crate) fn has_passphrase(&self) -> bool {
        matches!(self, Self::Closed { .. })
    }

    /// The private numbers.
    pub(crate) fn open(&self, passphrase: Option<&[u8]>) -> Result<Unlock, SecretKeyError> {
        match self {
            Self::Elsewhere => Ok(Unlock::Elsewhere),
            Self::Open(bytes) => {
                let numbers = Check::Sum.of(Zeroizing::new(bytes.to_vec()));
                let numbers = numbers.ok_or(Error::Malformed("a private key"))?;
                Ok(Unlock::Open(numbers))
            }
            Self::Closed {
                check,
                cipher,
                s2k,
                start,
                bytes,
            } => {
                let passphrase = passphrase.ok_or(SecretKeyError::NoPassphrase)?;
                let key = s2k.key(passphrase, cipher.key_length());
                let mut bytes = Zeroizing::new(bytes.to_vec());
                let opened = cipher.decrypt(&key, *start, &mut bytes);
                let numbers = opened.and_then(|()| check.of(bytes));
                let numbers = numbers.ok_or(SecretKeyError::WrongPassphrase)?;
                Ok(Unlock::Open(numbers))
            }
        }
    }
}

impl Check {
    /// The bytes without their check, if it is the right one.
    fn of(self, mut bytes: Zeroizing<Vec<u8>>) -> Option<Zeroizing<Vec<u8>>> {
        let length = bytes.len().checked_sub(match self {
            Self::Sum => 2,
            Self::Sha1 => 20,
        })?;
        let (content, check) = bytes.split_at_checked(length)?;
        let is_good = match self {
            Self::Sum => sum(content).to_be_bytes().ct_eq(check),
            Self::Sha1 => digest(&SHA1_FOR_LEGACY_USE_ONLY, content)
                .as_ref()
                .ct_eq(check),
        };
        if !bool::from(is_good) {
            return None;
        }
        bytes.truncate(length);
        Some(bytes)
    }
}

/// The sum of bytes, as OpenPGP checks with it.
pub(crate) fn sum(bytes: &[u8]) -> u16 {
    bytes
        .iter()
        .fold(0, |sum: u16, byte| sum.wrapping_add((*byte).into()))
}
