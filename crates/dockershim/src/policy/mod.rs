//! Signature policies for images.
//!
//! The engine knows no policies. The native backend's pull client resolves names, finds signatures and checks them.
//! The engine then pulls the checked digest. The image's id is the digest of its configuration or manifest, and this
//! daemon computes that digest itself. The id alone therefore proves that an image is the checked one; names and
//! digests that the engine reports prove nothing.

mod admit;
mod find;
mod pull;

pub(crate) use admit::{admit, admit_mounts};
pub(crate) use find::{find, of_engine};
pub(crate) use pull::{examine, fetch, platform, request};
