//! Signed messages of OpenPGP (RFC 4880, RFC 9580), and the keys that verify them. It signs, encrypts and decrypts
//! nothing, and has no network, no disk, no tokio and no clock.
//!
//! [`Keyring`] is filled from key files; [`Message`] is one signed message; [`Message::verify`] says what was
//! signed, and by whom, or why that is not to be believed ([`Refusal`]).

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
