//! Sigstore material with generated keys: certificates, logs and bundles.
//!
//! A [`Person`] has a [`Key`] and optionally a certificate of a [`CodeAuthority`]. It signs a message or a statement,
//! and a [`TransparencyLog`] records it. The result is JSON as cosign writes it, which a test may change.

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
