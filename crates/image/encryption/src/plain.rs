//! Decryption of an encrypted layer.

use std::io::{self, Read};

use aws_lc_rs::cipher::{AES_256, DecryptionContext, StreamingDecryptingKey, UnboundCipherKey};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::hmac;
use aws_lc_rs::iv::FixedLength;
use zeroize::Zeroizing;

use crate::Options;

/// Maximum number of bytes decrypted at once.
const MOST_AT_ONCE: usize = 1 << 20;
/// AES block size; the library requires this much extra space in the output buffer.
const BLOCK: usize = 16;

/// A reader that decrypts a layer. The HMAC is only verified at the end: after an error there, no data read before
/// may be used.
pub struct Plain<R> {
    input: R,
    /// An error if the library could not create it.
    cipher: Result<StreamingDecryptingKey, Unspecified>,
    plain: Zeroizing<Vec<u8>>,
    verifier: Option<hmac::Context>,
    expected: [u8; 32],
}

impl<R> Plain<R> {
    /// Wraps a reader of the encrypted bytes.
    pub fn new(input: R, options: &Options) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &*options.key);
        Self {
            input,
            cipher: UnboundCipherKey::new(&AES_256, &*options.key).and_then(|key| {
                let start = DecryptionContext::Iv128(FixedLength::from(options.nonce));
                StreamingDecryptingKey::ctr(key, start)
            }),
            plain: Zeroizing::default(),
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
        let most = into.len().min(MOST_AT_ONCE);
        let read = self.input.read(&mut into[..most])?;
        let bytes = into.get_mut(..read).unwrap_or_default();
        if bytes.is_empty() {
            return self.verify().map(|()| 0);
        }
        if let Some(verifier) = &mut self.verifier {
            verifier.update(bytes);
        }
        let failed = |Unspecified| io::Error::other("cannot decrypt an encrypted layer");
        let cipher = self.cipher.as_mut().map_err(|error| failed(*error))?;
        if self.plain.len() < read + BLOCK {
            self.plain.resize(read + BLOCK, 0);
        }
        let plain = cipher.update(bytes, &mut self.plain).map_err(failed)?;
        bytes.copy_from_slice(plain.written());
        Ok(read)
    }
}

impl<R> Plain<R> {
    /// Verifies the HMAC once; a further read does not repeat the error.
    fn verify(&mut self) -> io::Result<()> {
        let Some(verifier) = self.verifier.take() else {
            return Ok(());
        };
        let wrong = "its HMAC is wrong: the content was modified, or does not belong to this key";
        let signed = verifier.sign();
        if verify_slices_are_equal(signed.as_ref(), &self.expected).is_ok() {
            Ok(())
        } else {
            Err(io::Error::new(io::ErrorKind::InvalidData, wrong))
        }
    }
}
