//! PKCS#8 keys with a passphrase (PBES2, RFC 8018): PBKDF2 and AES-CBC, as openssl writes them.

use std::num::NonZeroU32;

use aws_lc_rs::cipher::{
    self, AES_128, AES_192, AES_256, DecryptionContext, PaddedBlockDecryptingKey, UnboundCipherKey,
};
use aws_lc_rs::iv::FixedLength;
use aws_lc_rs::pbkdf2::{
    self, PBKDF2_HMAC_SHA1, PBKDF2_HMAC_SHA256, PBKDF2_HMAC_SHA384, PBKDF2_HMAC_SHA512,
};
use orlop_der::{INTEGER, Malformed, OCTETS, OID, Reader, SEQUENCE, only};
use zeroize::Zeroizing;

use crate::KeyError;

/// Maximum number of rounds; more are not used in practice, and would take many seconds.
const MOST_ROUNDS: u32 = 5_000_000;

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
    hash: pbkdf2::Algorithm,
    salt: &'a [u8],
    rounds: NonZeroU32,
    cipher: &'static cipher::Algorithm,
    /// Size of the key in bytes.
    length: usize,
    start: [u8; 16],
    bytes: &'a [u8],
}

/// Decrypts a key to PKCS#8 without a passphrase.
pub(crate) fn open(der: &[u8], passphrase: Option<&[u8]>) -> Result<Zeroizing<Vec<u8>>, KeyError> {
    let locked = Locked::parse(der)?;
    let passphrase = passphrase.ok_or(KeyError::NoPassphrase)?;
    let opened = locked.decrypt(passphrase);
    opened
        .filter(|opened| is_key(opened).is_ok())
        .ok_or(KeyError::WrongPassphrase)
}

/// Checks that the bytes are exactly one PKCS#8 structure. Random bytes pass once in millions.
fn is_key(der: &[u8]) -> Result<(), Malformed> {
    let mut info = only(der, SEQUENCE)?.values();
    match info.expect(INTEGER)?.content {
        [0 | 1] => info.expect(SEQUENCE).map(drop),
        _ => Err(Malformed),
    }
}

impl From<Malformed> for KeyError {
    fn from(_: Malformed) -> Self {
        Self::Pem
    }
}

impl<'a> Locked<'a> {
    fn parse(der: &'a [u8]) -> Result<Self, KeyError> {
        let unsupported = |how: &str| KeyError::Protection(how.to_owned());
        let mut info = Reader::new(der).expect(SEQUENCE)?.values();
        let mut scheme = info.expect(SEQUENCE)?.values();
        let bytes = info.expect(OCTETS)?.content;
        if scheme.expect(OID)?.content != PBES2 {
            return Err(unsupported("in the format of PKCS#5 v1.5 or PKCS#12"));
        }
        let mut both = scheme.expect(SEQUENCE)?.values();
        let mut kdf = both.expect(SEQUENCE)?.values();
        let mut cipher = both.expect(SEQUENCE)?.values();
        match kdf.expect(OID)?.content {
            PBKDF2 => {}
            SCRYPT => return Err(unsupported("with scrypt")),
            _ => return Err(unsupported("with a key derivation other than PBKDF2")),
        }
        let mut kdf = kdf.expect(SEQUENCE)?.values();
        let salt = kdf.expect(OCTETS)?.content;
        let rounds = number(kdf.expect(INTEGER)?.content);
        let rounds = rounds.filter(|rounds| rounds.get() <= MOST_ROUNDS);
        let rounds = rounds.ok_or_else(|| unsupported("with too many iterations"))?;
        let (length, algorithm) = match cipher.expect(OID)?.content.strip_prefix(&AES) {
            Some([2]) => (16, &AES_128),
            Some([22]) => (24, &AES_192),
            Some([42]) => (32, &AES_256),
            _ => return Err(unsupported("with a cipher other than AES-CBC")),
        };
        let start = cipher.expect(OCTETS)?.content;
        let start = start.try_into().map_err(|_| KeyError::Pem)?;
        let mut hash = PBKDF2_HMAC_SHA1;
        while !kdf.is_empty() {
            let value = kdf.read()?;
            match value.tag {
                // The optional key size, which must match the cipher.
                INTEGER if number(value.content).is_some_and(|it| it.get() as usize == length) => {}
                SEQUENCE => {
                    let name = value.values().expect(OID)?.content;
                    hash = match name.strip_prefix(&HMAC) {
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
            cipher: algorithm,
            length,
            start,
            bytes,
        })
    }

    /// Decrypts; returns `None` if the PKCS#7 padding of the last block is wrong.
    fn decrypt(&self, passphrase: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let mut key = Zeroizing::new(vec![0; self.length]);
        pbkdf2::derive(self.hash, self.rounds, self.salt, passphrase, &mut key);
        let key = UnboundCipherKey::new(self.cipher, &key).ok()?;
        let key = PaddedBlockDecryptingKey::cbc_pkcs7(key).ok()?;
        let start = DecryptionContext::Iv128(FixedLength::from(self.start));
        let mut opened = Zeroizing::new(self.bytes.to_vec());
        let length = key.decrypt(&mut opened, start).ok()?.len();
        opened.truncate(length);
        Some(opened)
    }
}

/// Parses a positive DER number of up to four bytes.
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
