//! Encrypted layers, as ocicrypt has them: whose keys open them, and their plain bytes. No network, no disk, no
//! clock.
//!
//! ```text
//! annotations ──► Wrapped ── a private key, or what a provider says ──► Options ──► Plain: decrypts, and verifies
//!                 (JWE, PKCS#7)                                          (secret)           all of it at its end
//! ```

mod file;
mod jwe;
mod key;
mod options;
mod pbes2;
mod pkcs7;
mod plain;
mod provider;
mod wrapped;

pub use file::KeyError;
pub use key::PrivateKey;
pub use options::Options;
pub use plain::Plain;
pub use provider::{Malformed, answer, question};
pub use wrapped::{Budget, Refused, Scheme, Wrapped};

/// By which annotations a layer says for whom it is encrypted begin.
pub const KEYS: &str = "org.opencontainers.image.enc.keys.";
/// The annotation with what is no secret of its encryption.
pub const PUBLIC_OPTIONS: &str = "org.opencontainers.image.enc.pubopts";
