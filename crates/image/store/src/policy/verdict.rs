//! The verdict of a policy on an image, with reasons.

use std::path::PathBuf;

use super::document::{Policy, Requirement};
use super::subject::Subject;
use crate::clock::now;
use crate::evidence::Evidence;
use crate::{Error, Reference, Result};

/// The verdict of a policy on an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The name used for the check; without a name, only the policy's default applies.
    pub name: Option<Reference>,
    /// The policy's file.
    pub policy: PathBuf,
    /// The place of the requirements in the file: `default`, or the most specific scope.
    pub place: String,
    /// The requirements; the image must fulfil all of them.
    pub requirements: Vec<RequirementVerdict>,
}

/// The result of one requirement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequirementVerdict {
    /// The requirement type in the policy.
    pub kind: &'static str,
    /// Whether the image fulfils it.
    pub fulfilled: bool,
    /// By which key and for which name it is signed, or why the image does not fulfil it.
    pub reason: String,
}

impl Verdict {
    /// Returns whether the image may be used.
    pub fn is_allowed(&self) -> bool {
        self.requirements.iter().all(|one| one.fulfilled)
    }

    /// Converts a negative verdict to an error.
    pub(crate) fn into_result(self) -> Result<()> {
        let Some(broken) = self.requirements.iter().find(|one| !one.fulfilled) else {
            return Ok(());
        };
        let image = self.name.as_ref().map(ToString::to_string);
        Err(Error::NotAllowed {
            image: image.unwrap_or_else(|| "an image without a name".to_owned()),
            policy: self.policy.display().to_string(),
            place: self.place.clone(),
            reason: broken.reason.clone(),
        })
    }
}

impl Policy {
    /// Checks an image. Fails if a key cannot be read. Blocks.
    pub(crate) fn judge(&self, subject: Subject<'_>) -> Result<Verdict> {
        let requirements = self.requirements(subject.name);
        let mut verdict = Verdict {
            name: subject.name.cloned(),
            policy: self.file.clone(),
            place: requirements.place.clone(),
            requirements: Vec::new(),
        };
        let unreadable = |index: usize, reason: String| Error::Policy {
            path: self.file.display().to_string(),
            reason: format!("{}[{index}]: {reason}", requirements.place),
        };
        for (index, requirement) in requirements.list.iter().enumerate() {
            let (fulfilled, reason) = match requirement {
                Requirement::AcceptAnything => (true, "any image is accepted".to_owned()),
                Requirement::Reject => (false, "every image is rejected".to_owned()),
                Requirement::Sigstore(signed) => {
                    let judged = signed.judge(subject);
                    told(judged.map_err(|reason| unreadable(index, reason))?)
                }
                Requirement::SignedBy(signed) => {
                    let judged = signed.judge(subject, now());
                    told(judged.map_err(|reason| unreadable(index, reason))?)
                }
            };
            verdict.requirements.push(RequirementVerdict {
                kind: requirement.kind(),
                fulfilled,
                reason,
            });
        }
        Ok(verdict)
    }
}

/// Splits a result into a flag and a reason.
fn told(outcome: Result<String, String>) -> (bool, String) {
    match outcome {
        Ok(reason) => (true, reason),
        Err(reason) => (false, reason),
    }
}

/// Checks an image by each of these names, or without a name if there are none. Returns the first verdict that allows
/// it, otherwise the first verdict. Blocks.
pub(crate) fn judge_by_names(
    policy: &Policy,
    names: &[Reference],
    evidence: &Evidence,
) -> Result<Verdict> {
    let judge = |name| policy.judge(Subject { name, evidence });
    let mut said = None;
    for name in names {
        let verdict = judge(Some(name))?;
        if verdict.is_allowed() {
            return Ok(verdict);
        }
        said.get_or_insert(verdict);
    }
    match said {
        Some(refused) => Ok(refused),
        None => judge(None),
    }
}
