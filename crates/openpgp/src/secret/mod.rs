//! Private keys: read from files, freed of their passphrase, and what they unwrap.

mod ecdh;
mod keys;
mod locked;
mod private;
mod s2k;

pub(crate) use locked::sum;

pub use keys::{SecretKey, SecretKeyError, is_keys};
