//! AES in the mode that OpenPGP has it in (CFB, RFC 9580, 12.9), and what the ciphers are called.

use aes::cipher::{BlockCipherEncrypt, KeyInit};
use aes::{Aes128, Aes192, Aes256, Block};

/// A block of AES.
pub(crate) const BLOCK: usize = 16;

/// Ciphers by their numbers (RFC 9580, 9.3): AES with keys of three lengths, and no other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cipher {
    Aes128,
    Aes192,
    Aes256,
}

/// A cipher that is not understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Other {
    pub(crate) name: String,
    /// How long its keys are, if anybody has said so.
    pub(crate) key_length: Option<usize>,
}

impl Cipher {
    pub(crate) fn of(number: u8) -> Result<Self, Other> {
        let (name, length) = match number {
            7 => return Ok(Self::Aes128),
            8 => return Ok(Self::Aes192),
            9 => return Ok(Self::Aes256),
            1 => ("IDEA", 16),
            2 => ("TripleDES", 24),
            3 => ("CAST5", 16),
            4 => ("Blowfish", 16),
            10 => ("Twofish", 32),
            11 => ("Camellia-128", 16),
            12 => ("Camellia-192", 24),
            13 => ("Camellia-256", 32),
            other => {
                return Err(Other {
                    name: format!("the cipher {other}"),
                    key_length: None,
                });
            }
        };
        Err(Other {
            name: format!("the cipher {name}"),
            key_length: Some(length),
        })
    }

    pub(crate) fn key_length(self) -> usize {
        match self {
            Self::Aes128 => 16,
            Self::Aes192 => 24,
            Self::Aes256 => 32,
        }
    }

    /// Decrypts in place; nothing where the key is of another length.
    pub(crate) fn decrypt(self, key: &[u8], start: [u8; BLOCK], bytes: &mut [u8]) -> Option<()> {
        match self {
            Self::Aes128 => run::<Aes128>(key, start, bytes),
            Self::Aes192 => run::<Aes192>(key, start, bytes),
            Self::Aes256 => run::<Aes256>(key, start, bytes),
        }
    }
}

fn run<C>(key: &[u8], start: [u8; BLOCK], bytes: &mut [u8]) -> Option<()>
where
    C: KeyInit + BlockCipherEncrypt<BlockSize = aes::cipher::consts::U16>,
{
    let cipher = C::new_from_slice(key).ok()?;
    let mut mask = Block::from(start);
    for piece in bytes.chunks_mut(BLOCK) {
        cipher.encrypt_block(&mut mask);
        for (byte, mask) in piece.iter_mut().zip(mask.iter_mut()) {
            let encrypted = *byte;
            *byte ^= *mask;
            *mask = encrypted;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<_> = hex.chars().map(|it| it.to_digit(16).unwrap()).collect();
        digits
            .chunks(2)
            .map(|pair| (pair[0] * 16 + pair[1]) as u8)
            .collect()
    }

    #[test]
    fn aes_in_cfb_is_that_of_the_standard() {
        // NIST SP 800-38A, F.3.14, F.3.16 and F.3.18.
        let start = bytes("000102030405060708090a0b0c0d0e0f");
        let plain = bytes("6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51");
        for (cipher, key, encrypted) in [
            (
                Cipher::Aes128,
                "2b7e151628aed2a6abf7158809cf4f3c",
                "3b3fd92eb72dad20333449f8e83cfb4ac8a64537a0b3a93fcde3cdad9f1ce58b",
            ),
            (
                Cipher::Aes192,
                "8e73b0f7da0e6452c810f32b809079e562f8ead2522c6b7b",
                "cdc80d6fddf18cab34c25909c99a417467ce7f7f81173621961a2b70171d3d7a",
            ),
            (
                Cipher::Aes256,
                "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
                "dc7e84bfda79164b7ecd8486985d386039ffed143b28b1c832113c6331e5407b",
            ),
        ] {
            let mut bytes_ = bytes(encrypted);
            let start = <[u8; BLOCK]>::try_from(start.clone()).unwrap();
            cipher.decrypt(&bytes(key), start, &mut bytes_).unwrap();
            assert_eq!(bytes_, plain, "{cipher:?}");
            // Of a piece that ends anywhere, too.
            let mut bytes_ = bytes(encrypted)[..21].to_vec();
            cipher.decrypt(&bytes(key), start, &mut bytes_).unwrap();
            assert_eq!(bytes_, plain[..21]);
            assert_eq!(cipher.decrypt(&[1], start, &mut bytes_), None);
        }
    }
}
