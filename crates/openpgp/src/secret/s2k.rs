//! From a passphrase to a key (RFC 9580, 3.7): salted, and hashed again and again.

use sha1::{Digest, Sha1};
use sha2::{Sha256, Sha384, Sha512};
use zeroize::Zeroizing;

use crate::Error;
use crate::reader::Reader;

/// As much is hashed at once.
const CHUNK: usize = 16 << 10;

/// How a key is made.
#[derive(Debug)]
pub(crate) struct S2k {
    hash: Hash,
    salt: [u8; 8],
    /// Bytes that are hashed: 65,011,712 are the most that can be written.
    count: usize,
}

/// The hashes there are. These are not ring's, whose SHA-1 takes three times as long.
#[derive(Debug, Clone, Copy)]
enum Hash {
    Sha1,
    Sha256,
    Sha384,
    Sha512,
}

/// What stands where a passphrase is described.
#[derive(Debug)]
pub(crate) enum Described {
    S2k(S2k),
    /// The private part is on a card, or was left out.
    Elsewhere,
}

impl S2k {
    pub(crate) fn parse(reader: &mut Reader<'_>) -> Result<Described, Error> {
        let unsupported = |what: &str| Error::Unsupported(format!("passphrase protection {what}"));
        let kind = reader.byte().ok_or(Error::Truncated)?;
        match kind {
            3 => {}
            0 | 1 => return Err(unsupported("that is hashed only once")),
            4 => return Err(unsupported("with Argon2")),
            // GnuPG's own: a hash that means nothing, its name, and what there is instead of a key.
            101 => {
                let gnu: [u8; 5] = reader.array().ok_or(Error::Truncated)?;
                return match gnu {
                    [_, b'G', b'N', b'U', 1 | 2] => Ok(Described::Elsewhere),
                    _ => Err(unsupported("of type 101")),
                };
            }
            other => return Err(unsupported(&format!("of type {other}"))),
        }
        let hash = match reader.byte().ok_or(Error::Truncated)? {
            2 => Hash::Sha1,
            8 => Hash::Sha256,
            9 => Hash::Sha384,
            10 => Hash::Sha512,
            1 => return Err(unsupported("with MD5")),
            other => return Err(unsupported(&format!("with hash {other}"))),
        };
        let salt = reader.array().ok_or(Error::Truncated)?;
        let count = reader.byte().ok_or(Error::Truncated)?;
        // Four bits of a number, and how far it is shifted.
        let count = (16 + usize::from(count & 15)) << ((count >> 4) + 6);
        Ok(Described::S2k(Self { hash, salt, count }))
    }

    /// As many bytes as a key has.
    pub(crate) fn key(&self, passphrase: &[u8], length: usize) -> Zeroizing<Vec<u8>> {
        match self.hash {
            Hash::Sha1 => self.hashed::<Sha1>(passphrase, length),
            Hash::Sha256 => self.hashed::<Sha256>(passphrase, length),
            Hash::Sha384 => self.hashed::<Sha384>(passphrase, length),
            Hash::Sha512 => self.hashed::<Sha512>(passphrase, length),
        }
    }

    fn hashed<D: Digest>(&self, passphrase: &[u8], length: usize) -> Zeroizing<Vec<u8>> {
        let once = Zeroizing::new([&self.salt, passphrase].concat());
        // At least once all of it.
        let count = self.count.max(once.len());
        let mut many = Zeroizing::new(Vec::with_capacity(CHUNK + once.len()));
        while many.len() < CHUNK {
            many.extend_from_slice(&once);
        }
        let mut key = Zeroizing::new(Vec::with_capacity(length + <D as Digest>::output_size()));
        // Each further hash begins with one more zero.
        let mut zeros = 0;
        while key.len() < length {
            let mut hash = D::new();
            hash.update(vec![0; zeros]);
            let mut left = count;
            while left > 0 {
                let piece = left.min(many.len());
                hash.update(&many[..piece]);
                left -= piece;
            }
            key.extend_from_slice(&hash.finalize());
            zeros += 1;
        }
        key.truncate(length);
        key
    }
}
