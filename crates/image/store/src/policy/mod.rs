//! Decides which images may be used: `policy.json` as in containers-policy.json(5), and the signatures that it
//! requires.

mod document;
mod files;
mod identity;
mod json;
mod key;
mod marks;
mod payload;
mod policy_scope;
pub(crate) mod scope;
mod signed_by;
mod sigstore;
mod sorting;
mod subject;
mod tags;
#[cfg(test)]
mod tests;
mod verdict;

pub(crate) use document::{Needs, Policy, SIGNED_BY, SIGSTORE_SIGNED};
pub use files::PolicyFiles;
pub(crate) use payload::{Kind, Payload};
pub use policy_scope::PolicyFor;
pub(crate) use subject::Subject;
pub(crate) use tags::{tag_of, tag_of_attestations};
pub(crate) use verdict::judge_by_names;
pub use verdict::{RequirementVerdict, Verdict};
