//! Whether an image is pulled before a container's start, and what a failure is called.

mod failure;
mod pull;

pub use failure::{PullFailure, classify_pull_error};
pub use pull::{ImageError, Presence, default_policy, plan_image, with_default_tag};
