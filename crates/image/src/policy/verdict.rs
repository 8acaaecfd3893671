//! Whether an image fulfils what a policy asks for, and why.

use std::path::PathBuf;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::document::{Policy, Requirement};
use super::identity::SignedIdentity;
use super::key::{KeySource, PublicKey};
use super::payload::{Kind, Payload};
use crate::store::{Evidence, Signature, now};
use crate::{Digest, Error, Reference, Result};

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
                Requirement::AcceptAnything => (true, "any image fulfils this".to_owned()),
                Requirement::Reject => (false, "no image fulfils this".to_owned()),
                Requirement::Signed { keys, identity } => {
                    let loaded = load(keys).map_err(|reason| unreadable(index, reason))?;
                    told(signed(subject, &loaded, identity))
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

fn load(keys: &[KeySource]) -> Result<Vec<(&KeySource, PublicKey)>, String> {
    let loaded = keys.iter().map(|source| Ok((source, source.load()?)));
    loaded.collect()
}

/// By which key and for which name the image is signed; else why no signature will do.
fn signed(
    subject: Subject<'_>,
    keys: &[(&KeySource, PublicKey)],
    identity: &SignedIdentity,
) -> Result<String, String> {
    let evidence = subject.evidence;
    if evidence.signatures.is_empty() {
        let places: Vec<_> = evidence.manifests.iter().filter_map(tag_of).collect();
        if places.is_empty() {
            return Err(
                "it has to be signed, and no signature of it is kept here; pull it again"
                    .to_owned(),
            );
        }
        return Err(format!(
            "it has to be signed, and has no signature: there is none at {}",
            places.join(" nor at ")
        ));
    }
    any_of(&evidence.signatures, |signature| {
        accepted(signature, subject, keys, identity)
    })
}

/// Why one of several signatures is accepted; else why none of them is.
pub(super) fn any_of<S>(
    signatures: &[S],
    accepted: impl Fn(&S) -> Result<String, String>,
) -> Result<String, String> {
    let mut reasons: Vec<String> = Vec::new();
    for signature in signatures {
        match accepted(signature) {
            Ok(reason) => return Ok(reason),
            Err(reason) if reasons.contains(&reason) => {}
            Err(reason) => reasons.push(reason),
        }
    }
    let more = reasons.len().saturating_sub(MAX_REASONS);
    reasons.truncate(MAX_REASONS);
    let mut text = match signatures.len() {
        1 => format!("its signature is not accepted: {}", reasons.join("; ")),
        count => format!(
            "none of its {count} signatures is accepted: {}",
            reasons.join("; ")
        ),
    };
    if more > 0 {
        text.push_str("; …");
    }
    Err(text)
}

fn accepted(
    signature: &Signature,
    subject: Subject<'_>,
    keys: &[(&KeySource, PublicKey)],
    identity: &SignedIdentity,
) -> Result<String, String> {
    let bytes = BASE64_STANDARD.decode(&signature.signature);
    let bytes = bytes.map_err(|error| format!("it is not base64: {error}"))?;
    let payload = signature.payload.as_bytes();
    let signer = keys.iter().find(|(_, key)| key.has_signed(payload, &bytes));
    let Some((signer, _)) = signer else {
        return Err(match keys {
            [(only, _)] => format!("it is not by {only}"),
            _ => format!("it is by none of the {} keys", keys.len()),
        });
    };
    // From here on it is the signer who speaks.
    let payload = Payload::parse(Kind::Cosign, payload)
        .map_err(|wrong| format!("what was signed can't be read: {wrong}"))?;
    if !subject.evidence.manifests.contains(&payload.digest) {
        return Err(format!("it is for another image, {}", payload.digest));
    }
    identity.accepts(subject.name, &payload.reference)?;
    Ok(format!(
        "signed by {signer} as {:?} with digest {}",
        payload.reference, payload.digest
    ))
}

/// The tag at which cosign puts the signatures of what has this digest.
pub(crate) fn tag_of(digest: &Digest) -> Option<String> {
    let tag = digest.to_string().replacen(':', "-", 1) + ".sig";
    // With more, it would not be a tag.
    (tag.len() <= 128).then_some(tag)
}
