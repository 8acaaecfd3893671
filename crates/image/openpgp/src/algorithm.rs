//! Public key algorithms, by their numbers in RFC 9580, 9.1.

pub(crate) const RSA: u8 = 1;
pub(crate) const RSA_SIGN_ONLY: u8 = 3;
pub(crate) const ECDSA: u8 = 19;
/// Ed25519 in its older form.
pub(crate) const EDDSA: u8 = 22;
pub(crate) const ED25519: u8 = 27;

/// Reports whether a number stands for an algorithm.
pub(crate) fn is_known(kind: u8) -> bool {
    named(kind).is_some()
}

/// Returns the usual name of an algorithm.
pub(crate) fn name(kind: u8) -> String {
    named(kind).map_or_else(|| format!("algorithm {kind}"), str::to_owned)
}

fn named(kind: u8) -> Option<&'static str> {
    Some(match kind {
        1..=3 => "RSA",
        16 | 20 => "ElGamal",
        17 => "DSA",
        18 => "ECDH",
        ECDSA => "ECDSA",
        EDDSA => "EdDSA",
        25 => "X25519",
        26 => "X448",
        ED25519 => "Ed25519",
        28 => "Ed448",
        _ => return None,
    })
}
