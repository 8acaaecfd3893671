//! The names of decrypted layers on disk.

use orlop_encryption::Options;

use crate::Digest;

/// The name of a decrypted layer. Who knows the plain bytes has a layer of another name, and so has who wraps some
/// other key for the same encrypted bytes: nobody gets at it who does not have its key.
pub(crate) fn name(blob: &Digest, diff_id: &Digest, secret: &Options) -> Digest {
    let key = orlop_text::hex::encode(&secret.fingerprint());
    Digest::of(format!("{blob} decrypted to {diff_id} by {key}").as_bytes())
}
