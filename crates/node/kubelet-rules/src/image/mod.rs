//! Whether an image is pulled before a container's start, and what a failure is called.

mod access;
mod failure;
mod pull;

pub use access::{
    Access, Allowlist, CredentialPolicy, PulledRecord, SecretRecord, Verdict, bare_name, may_use,
};
pub use failure::{PullFailure, classify_pull_error};
pub use pull::{ImageError, Presence, default_policy, plan_image, with_default_tag};
