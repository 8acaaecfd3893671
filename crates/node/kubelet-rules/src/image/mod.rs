//! Image pulls: whether one is needed, who may use the image, and why a pull failed.

mod access;
mod failure;
mod pull;

pub use access::{
    Access, Allowlist, CredentialPolicy, PulledRecord, SecretRecord, Verdict, bare_name, may_use,
};
pub use failure::{PullFailure, classify_pull_error};
pub use pull::{ImageError, Presence, default_policy, plan_image, with_default_tag};
