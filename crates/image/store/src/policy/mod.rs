//! Which images may be used: `policy.json` as containers-policy.json(5) describes it, and the
//! signatures that it asks for.

mod document;
mod files;
mod identity;
mod json;
mod key;
mod payload;
pub(crate) mod scope;
mod signed_by;
mod sigstore;
mod sorting;
#[cfg(test)]
mod tests;
mod verdict;

pub(crate) use document::{Needs, Policy, SIGNED_BY, SIGSTORE_SIGNED};
pub use files::PolicyFiles;
pub(crate) use payload::{Kind, Payload};
pub use verdict::{RequirementVerdict, Verdict};
pub(crate) use verdict::{Subject, tag_of, tag_of_attestations};
