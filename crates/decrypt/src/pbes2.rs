//! Keys with a passphrase as PKCS#8 has them (PBES2, RFC 8018): PBKDF2 and AES-CBC, as openssl writes them.

use std::num::NonZeroU32;

use aes::cipher::{BlockCipherDecrypt, KeyInit, consts::U16};
use aes::{Aes128, Aes192, Aes256, Block};
use ring::pbkdf2::{
    Algorithm, PBKDF2_HMAC_SHA1, PBKDF2_HMAC_SHA256, PBKDF2_HMAC_SHA384, PBKDF2_HMAC_SHA512, derive,
};
use zeroize::Zeroizing;

use crate::KeyError;
use crate::der::{INTEGER, OBJECT, OCTETS, SEQUENCE, Values};

/// More often hashes nobody, and it would take many seconds.
const MOST_ROUNDS: u32 = 5_000_000;
const BLOCK: usize = 16;

/// 1.2.840.113549.1.5.13 and .12
const PBES2: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x05, 0x0d];
const PBKDF2: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x05, 0x0c];
/// 1.3.6.1.4.1.11591.4.11
const SCRYPT: &[u8] = &[0x2b, 0x06, 0x01, 0x04, 0x01, 0xda, 0x47, 0x04, 0x0b];
/// 1.2.840.113549.2: .7 is HMAC with SHA-1, .9 to .11 with SHA-256 to SHA-512.
const HMAC: [u8; 7] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x02];
/// 2.16.840.1.101.3.4.1: .2, .22 and .42 are AES-CBC with keys of 128, 192 and 256 bits.
const AES: [u8; 8] = [0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x01];

struct Locked<'a> {
    hash: Algorithm,
    salt: &'a [u8],
    rounds: NonZeroU32,
    /// Bytes of the key.
    length: usize,
    start: [u8; BLOCK],
    bytes: &'a [u8],
}

/// The key as PKCS#8 has it without a passphrase.
pub(crate) fn open(der: &[u8], passphrase: Option<&[u8]>) -> Result<Zeroizing<Vec<u8>>, KeyError> {
    let locked = Locked::parse(der)?;
    let passphrase = passphrase.ok_or(KeyError::NoPassphrase)?;
    let mut key = Zeroizing::new(vec![0; locked.length]);
    derive(
        locked.hash,
        locked.rounds,
        locked.salt,
        passphrase,
        &mut key,
    );
    let opened = match locked.length {
        16 => locked.decrypt::<Aes128>(&key),
        24 => locked.decrypt::<Aes192>(&key),
        _ => locked.decrypt::<Aes256>(&key),
    };
    opened
        .filter(|opened| is_key(opened))
        .ok_or(KeyError::WrongPassphrase)
}

/// Whether it is what PKCS#8 begins with, and nothing behind it: by chance it is that once in millions.
fn is_key(der: &[u8]) -> bool {
    let mut top = Values(der);
    let info = top.expect(SEQUENCE).filter(|_| top.is_empty());
    info.is_some_and(|info| {
        let mut info = Values(info);
        matches!(info.expect(INTEGER), Some([0 | 1])) && info.expect(SEQUENCE).is_some()
    })
}

impl<'a> Locked<'a> {
    fn parse(der: &'a [u8]) -> Result<Self, KeyError> {
        let unsupported = |how: &str| KeyError::Protection(how.to_owned());
        let mut top = Values(der);
        let mut info = Values(top.expect(SEQUENCE).ok_or(KeyError::Pem)?);
        let mut scheme = Values(info.expect(SEQUENCE).ok_or(KeyError::Pem)?);
        let bytes = info.expect(OCTETS).ok_or(KeyError::Pem)?;
        if scheme.expect(OBJECT).ok_or(KeyError::Pem)? != PBES2 {
            return Err(unsupported("in the format of PKCS#5 v1.5 or PKCS#12"));
        }
        let mut both = Values(scheme.expect(SEQUENCE).ok_or(KeyError::Pem)?);
        let mut kdf = Values(both.expect(SEQUENCE).ok_or(KeyError::Pem)?);
        let mut cipher = Values(both.expect(SEQUENCE).ok_or(KeyError::Pem)?);
        match kdf.expect(OBJECT).ok_or(KeyError::Pem)? {
            PBKDF2 => {}
            SCRYPT => return Err(unsupported("with scrypt")),
            _ => return Err(unsupported("with a key derivation other than PBKDF2")),
        }
        let mut kdf = Values(kdf.expect(SEQUENCE).ok_or(KeyError::Pem)?);
        let salt = kdf.expect(OCTETS).ok_or(KeyError::Pem)?;
        let rounds = number(kdf.expect(INTEGER).ok_or(KeyError::Pem)?);
        let rounds = rounds.filter(|rounds| rounds.get() <= MOST_ROUNDS);
        let rounds = rounds.ok_or_else(|| unsupported("with too many iterations"))?;
        let length = match cipher.expect(OBJECT).and_then(|it| it.strip_prefix(&AES)) {
            Some([2]) => 16,
            Some([22]) => 24,
            Some([42]) => 32,
            _ => return Err(unsupported("with a cipher other than AES-CBC")),
        };
        let start = cipher.expect(OCTETS).and_then(|it| it.try_into().ok());
        let start = start.ok_or(KeyError::Pem)?;
        let mut hash = PBKDF2_HMAC_SHA1;
        while let Some(value) = kdf.next() {
            match value.tag {
                // How long the key is, which its cipher says as well.
                INTEGER if number(value.bytes).is_some_and(|it| it.get() as usize == length) => {}
                SEQUENCE => {
                    hash = match Values(value.bytes)
                        .expect(OBJECT)
                        .and_then(|it| it.strip_prefix(&HMAC))
                    {
                        Some([7]) => PBKDF2_HMAC_SHA1,
                        Some([9]) => PBKDF2_HMAC_SHA256,
                        Some([10]) => PBKDF2_HMAC_SHA384,
                        Some([11]) => PBKDF2_HMAC_SHA512,
                        _ => {
                            return Err(unsupported(
                                "with a hash other than SHA-1, SHA-256, SHA-384 and SHA-512",
                            ));
                        }
                    };
                }
                _ => return Err(KeyError::Pem),
            }
        }
        Ok(Self {
            hash,
            salt,
            rounds,
            length,
            start,
            bytes,
        })
    }

    /// AES-CBC, and what fills up its last block.
    fn decrypt<C: KeyInit + BlockCipherDecrypt<BlockSize = U16>>(
        &self,
        key: &[u8],
    ) -> Option<Zeroizing<Vec<u8>>> {
        let cipher = C::new_from_slice(key).ok()?;
        let mut opened = Zeroizing::new(Vec::with_capacity(self.bytes.len()));
        let mut before = self.start;
        for piece in self.bytes.chunks(BLOCK) {
            let piece: [u8; BLOCK] = piece.try_into().ok()?;
            let mut block = Block::from(piece);
            cipher.decrypt_block(&mut block);
            opened.extend(block.iter().zip(before).map(|(byte, mask)| byte ^ mask));
            before = piece;
        }
        let count = *opened.last()?;
        let length = opened.len().checked_sub(count.into())?;
        let is_good = (1..=BLOCK).contains(&count.into())
            && opened.get(length..)?.iter().all(|byte| *byte == count);
        opened.truncate(length);
        is_good.then_some(opened)
    }
}

/// A number of DER that is neither negative nor beyond four bytes.
fn number(bytes: &[u8]) -> Option<NonZeroU32> {
    let bytes = match bytes {
        [0, rest @ ..] => rest,
        [first, ..] if first & 0x80 == 0 => bytes,
        _ => return None,
    };
    if bytes.len() > 4 {
        return None;
    }
    let number = bytes
        .iter()
        .fold(0_u32, |so_far, byte| (so_far << 8) | u32::from(*byte));
    NonZeroU32::new(number)
}
