//! Encrypted layers in the format of ocicrypt: unwrapping of their keys, and decryption. The crate uses no network,
//! disk or clock.
//!
//! ```text
//! annotations ──► Wrapped ── a private key, or a key provider        ──► Options ──► Plain: decrypts, and verifies
//!                 (JWE, PKCS#7)                                          (secret)           the HMAC at its end
//! ```

mod annotations;
mod budget;
mod file;
mod jwe;
mod key;
mod key_error;
mod options;
mod pbes2;
mod pkcs7;
mod plain;
mod provider;
mod refused;
mod wrapped;

pub use annotations::{KEYS, PUBLIC_OPTIONS};
pub use budget::Budget;
pub use key::PrivateKey;
pub use key_error::KeyError;
pub use options::Options;
pub use plain::Plain;
pub use provider::{Malformed, answer, question};
pub use refused::Refused;
pub use wrapped::{Scheme, Wrapped};
