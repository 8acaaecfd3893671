//! Whether a signature of sigstore's kinds holds: by whom it is, and of what.
//!
//! 1. What came from a registry is read: a [`Bundle`], or a [`Detached`] signature with what cosign writes beside it.
//! 2. A [`Demand`] says who must have signed: one of some [`PublicKey`]s, or somebody with a certificate
//!    ([`Identity`]) by certain [`Authorities`]; and in which logs it must be.
//! 3. [`Bundle::verify`] and [`Detached::verify`] say by whom it is, or why it does not count ([`Refusal`]).
//! 4. Only then is what was signed worth reading: a [`Statement`].
//!
//! There is no network here, no disk, no clock: bytes come in, a judgement goes out. All of these bytes come from
//! strangers.

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
