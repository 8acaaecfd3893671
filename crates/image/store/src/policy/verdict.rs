//! Whether an image fulfils what a policy asks for, and why.

use std::path::PathBuf;

use super::document::{Policy, Requirement};
use super::subject::Subject;
use crate::clock::now;
use crate::evidence::Evidence;
use crate::{Error, Reference, Result};

/// What a policy says of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The name that it was judged by; without one only the policy's default counts.
    pub name: Option<Reference>,
    /// The policy's file.
    pub policy: PathBuf,
    /// Where in it the requirements stand: `default`, or the most specific scope.
    pub place: String,
    /// The requirements; the image must fulfil all of them.
    pub requirements: Vec<RequirementVerdict>,
}

/// What came of one requirement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequirementVerdict {
    /// Its type, in the policy's words.
    pub kind: &'static str,
    /// Whether the image fulfils it.
    pub fulfilled: bool,
    /// By which key and for which name it is signed, or why the image does not fulfil it.
    pub reason: String,
}

impl Verdict {
    /// Whether the image may be used.
    pub fn is_allowed(&self) -> bool {
        self.requirements.iter().all(|one| one.fulfilled)
    }

    /// The error of an image that may not be used.
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
    /// Judges an image. Fails where a key can't be read. Blocks.
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

/// Whether it is fulfilled, and why or why not.
fn told(outcome: Result<String, String>) -> (bool, String) {
    match outcome {
        Ok(reason) => (true, reason),
        Err(reason) => (false, reason),
    }
}

/// What the policy says of an image by any of these names, or of one without a name: the first that it is allowed by,
/// else the first of all. Blocks.
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
