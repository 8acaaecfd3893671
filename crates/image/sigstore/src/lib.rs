//! Verification of sigstore signatures: who signed an artifact.
//!
//! 1. The caller parses data from a registry: a [`Bundle`], or a [`Detached`] signature with cosign's annotations.
//! 2. A [`Demand`] states the required signer and logs. The signer is the owner of a [`PublicKey`], or of a
//!    certificate ([`Identity`]) from trusted [`Authorities`].
//! 3. [`Bundle::verify`] and [`Detached::verify`] return the signer, or the reason to refuse the signature
//!    ([`Refusal`]).
//! 4. Only then is the signed content trustworthy: a [`Statement`].
//!
//! The crate uses no network, disk or clock. All of its input is untrusted.

mod algorithms;
mod authorities;
mod body;
mod bundle;
mod certificate;
mod checkpoint;
mod demand;
mod detached;
mod entry;
mod envelope;
#[doc(hidden)]
pub mod fuzzing;
mod hash;
mod identity;
mod key;
mod pattern;
mod proof;
mod refusal;
mod sct;
mod signed;
mod statement;
mod text;
mod time;
mod timestamp;

#[cfg(test)]
mod tests;

use orlop_der as der;

pub use authorities::Authorities;
pub use bundle::{Bundle, Content, MEDIA_TYPE};
pub use certificate::Certificate;
pub use demand::{By, Demand, Signer};
pub use detached::{Beside, Detached};
pub use envelope::Envelope;
pub use identity::{Identity, Subject};
pub use key::PublicKey;
pub use pattern::Pattern;
pub use refusal::Refusal;
pub use statement::{Statement, Subject as StatementSubject};
