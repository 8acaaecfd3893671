//! The plain bytes of an encrypted layer.

use std::io::{self, Read};

use aes::Aes256;
use ctr::Ctr128BE;
use ctr::cipher::{KeyIvInit as _, StreamCipher as _};
use ring::hmac;
use subtle::ConstantTimeEq as _;

use crate::Options;

/// Decrypts what is read. That all of it is right is known at its end alone: an error there means that nothing
/// which came before may be used.
pub struct Plain<R> {
    input: R,
    cipher: Ctr128BE<Aes256>,
    verifier: Option<hmac::Context>,
    expected: [u8; 32],
}

impl<R> Plain<R> {
    /// Over the bytes as they travel.
    pub fn new(input: R, options: &Options) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &*options.key);
        Self {
            input,
            cipher: Ctr128BE::new((&*options.key).into(), (&options.nonce).into()),
            verifier: Some(hmac::Context::with_key(&key)),
            expected: options.hmac,
        }
    }
}

impl<R: Read> Read for Plain<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        let read = self.input.read(into)?;
        let bytes = into.get_mut(..read).unwrap_or_default();
        if bytes.is_empty() {
            return self.verify().map(|()| 0);
        }
        if let Some(verifier) = &mut self.verifier {
            verifier.update(bytes);
        }
        let applied = self.cipher.try_apply_keystream(bytes);
        applied
            .map_err(|_| io::Error::other("an encrypted layer is longer than its cipher allows"))?;
        Ok(read)
    }
}

impl<R> Plain<R> {
    /// Once; whoever reads on has been told.
    fn verify(&mut self) -> io::Result<()> {
        let Some(verifier) = self.verifier.take() else {
            return Ok(());
        };
        let wrong = "its HMAC is wrong: the content was modified, or does not belong to this key";
        let signed = verifier.sign();
        if bool::from(signed.as_ref().ct_eq(&self.expected)) {
            Ok(())
        } else {
            Err(io::Error::new(io::ErrorKind::InvalidData, wrong))
        }
    }
}
