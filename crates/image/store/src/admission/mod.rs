//! Decides whether an image may be pulled: resolves its name, finds its signatures and applies the policy.

mod asked;
mod asker;
mod attestations;
mod bundles;
mod decide;
mod request;
mod search;
mod settings;
mod signatures;

pub(crate) use asked::{asked, keys_of};
pub(crate) use asker::Asker;
pub(crate) use attestations::listed_attestations;
pub(crate) use bundles::bundle_of;
pub(crate) use decide::{after as admitted, before as refuse_early};
pub(crate) use request::Request;
pub use request::{PullRequest, Wait};
pub(crate) use search::{beside, early, needs_signatures};
pub(crate) use settings::Settings;
pub(crate) use signatures::listed;
