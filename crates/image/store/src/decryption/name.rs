//! Store keys of decrypted layers.

use orlop_encryption::Options;

use crate::Digest;

/// Returns the store key of a decrypted layer. It depends on the decryption key. So neither the plain layer, nor
/// another key wrapped for the same encrypted bytes, gives access to this layer.
pub(crate) fn name(blob: &Digest, diff_id: &Digest, secret: &Options) -> Digest {
    let key = orlop_text::hex::encode(&secret.fingerprint());
    Digest::of(format!("{blob} decrypted to {diff_id} by {key}").as_bytes())
}
