//! Signed messages of OpenPGP (RFC 4880, RFC 9580), and the keys that verify them. The crate does not sign, encrypt
//! or decrypt, and uses no network, disk, tokio or clock.
//!
//! [`Keyring`] is filled from key files; [`Message`] is one signed message. [`Message::verify`] returns the signed
//! content and the signer, or the reason to refuse it ([`Refusal`]).

mod algorithm;
mod armor;
mod certificate;
mod content;
mod crypto;
mod error;
mod fingerprint;
mod key;
mod keyring;
mod message;
mod packet;
mod reader;
mod revocation;
mod signature;
mod standing;
mod subpacket;

pub use content::MAX_MESSAGE;
pub use error::{Error, KeyName, Refusal};
pub use fingerprint::Fingerprint;
pub use keyring::Keyring;
pub use message::{Message, Verified};
