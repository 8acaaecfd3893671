//! Messages of OpenPGP (RFC 4880, RFC 9580): signed ones with the keys that they are verified by, and encrypted ones
//! with the keys that open them. It signs and encrypts nothing, and has no network, no disk, no tokio and no clock.
//!
//! [`Keyring`] is filled from key files; [`Message`] is one signed message; [`Message::verify`] says what was
//! signed, and by whom, or why that is not to be believed ([`Refusal`]).
//!
//! [`SecretKey`]s are read from files of private keys; [`Encrypted`] is one encrypted message, and
//! [`Encrypted::open`] gives what is in it, or says why none of the keys opens it ([`Unopened`]).

mod armor;
mod certificate;
mod cfb;
mod content;
mod crypto;
mod encrypted;
mod error;
mod key;
mod keyring;
mod message;
mod packet;
mod reader;
mod revocation;
mod secret;
mod signature;
mod standing;
mod subpacket;

pub use content::MAX_MESSAGE;
pub use encrypted::{Encrypted, Unopened};
pub use error::{Error, KeyName, Refusal};
pub use key::Fingerprint;
pub use keyring::Keyring;
pub use message::{Message, Verified};
pub use secret::{SecretKey, SecretKeyError, is_keys};
