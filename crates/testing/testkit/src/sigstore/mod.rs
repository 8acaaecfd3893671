//! What sigstore's signers make: certificates, logs, bundles, with keys made on the spot.
//!
//! A [`Person`] has a [`Key`], and perhaps a certificate of a [`CodeAuthority`]; signs a message or a statement; and has
//! a [`TransparencyLog`] note it. What comes of that is JSON as cosign writes it, which a test may change at will.

mod attach;
mod authority;
mod bundle;
mod key;
mod log;
mod services;
mod stamp;

pub use attach::Referrer;
pub use authority::{CodeAuthority, Wish};
pub use bundle::{Person, stamped, statement};
pub use key::Key;
pub use log::{LogEntry, TransparencyLog};
pub use services::Services;
pub use stamp::{StampAuthority, StampWish, StamperWish};
