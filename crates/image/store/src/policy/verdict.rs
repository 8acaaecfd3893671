//! Whether an image fulfils what a policy asks for, and why.

use std::path::PathBuf;

use super::document::{Policy, Requirement};
use crate::store::{Evidence, now};
use crate::{Digest, Error, Reference, Result};

/// As much of a reason as anybody reads.
const LONGEST_REASON: usize = 400;
/// As many reasons as anybody reads.
const MAX_REASONS: usize = 3;

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

/// An image that is judged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject<'a> {
    /// The name that was asked for.
    pub(crate) name: Option<&'a Reference>,
    /// What is known of its signatures.
    pub(crate) evidence: &'a Evidence,
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

/// Why one of several things of a kind is accepted; else why none of them is.
pub(super) fn any_of(
    kind: &str,
    count: usize,
    outcomes: impl Iterator<Item = Result<String, String>>,
) -> Result<String, String> {
    let mut reasons: Vec<String> = Vec::new();
    for outcome in outcomes {
        match outcome {
            Ok(reason) => return Ok(reason),
            Err(reason) if reasons.contains(&reason) => {}
            Err(reason) => reasons.push(reason),
        }
    }
    let more = reasons.len().saturating_sub(MAX_REASONS);
    reasons.truncate(MAX_REASONS);
    // Parts of them are a stranger's words.
    let short = |reason: &String| reason.chars().take(LONGEST_REASON).collect::<String>();
    let reasons: Vec<String> = reasons.iter().map(short).collect();
    let reasons = reasons.join("; ");
    let mut text = match count {
        1 => format!("its {kind} is not accepted: {reasons}"),
        count => format!("none of its {count} {kind}s is accepted: {reasons}"),
    };
    if more > 0 {
        text.push_str("; …");
    }
    Err(text)
}

/// The tag at which cosign puts the signatures of what has this digest.
pub(crate) fn tag_of(digest: &Digest) -> Option<String> {
    tag(digest, "sig")
}

/// The tag at which it put attestations.
pub(crate) fn tag_of_attestations(digest: &Digest) -> Option<String> {
    tag(digest, "att")
}

fn tag(digest: &Digest, kind: &str) -> Option<String> {
    let tag = format!("{}.{kind}", digest.to_string().replacen(':', "-", 1));
    // With more, it would not be a tag.
    (tag.len() <= 128).then_some(tag)
}
