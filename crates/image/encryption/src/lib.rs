//! Encrypted layers, as ocicrypt has them: whose keys open them, and their plain bytes. No network, no disk, no
//! clock.
//!
//! ```text
//! annotations ──► Wrapped ── a private key, or what a provider says ──► Options ──► Plain: decrypts, and verifies
//!                 (JWE, PKCS#7)                                          (secret)           all of it at its end
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
