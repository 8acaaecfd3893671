//! Which of an image's signatures a policy accepts: those are kept before all others.

use super::document::{Policy, Requirement};
use super::verdict::Subject;
use crate::store::{Accepted, Evidence, now};
use crate::{Error, Reference, Result};

/// Which things of each kind are accepted, by their places.
#[derive(Debug)]
pub(super) struct Marks {
    pub(super) signatures: Vec<bool>,
    pub(super) bundles: Vec<bool>,
    pub(super) attestations: Vec<bool>,
    pub(super) messages: Vec<bool>,
}

impl Policy {
    /// Puts first what this policy accepts for that name. Fails where a key can't be read. Blocks.
    pub(crate) fn sort(&self, name: &Reference, evidence: &mut Evidence) -> Result<Accepted> {
        let requirements = self.requirements(Some(name));
        let mut marks = Marks::none(evidence);
        for (index, requirement) in requirements.list.iter().enumerate() {
            let subject = Subject {
                name: Some(name),
                evidence,
            };
            let marked = match requirement {
                Requirement::Sigstore(signed) => signed.mark(subject, &mut marks),
                Requirement::SignedBy(signed) => signed.mark(subject, now(), &mut marks),
                Requirement::AcceptAnything | Requirement::Reject => Ok(()),
            };
            marked.map_err(|reason| Error::Policy {
                path: self.file.display().to_string(),
                reason: format!("{}[{index}]: {reason}", requirements.place),
            })?;
        }
        Ok(Accepted {
            signatures: first(&mut evidence.signatures, &marks.signatures),
            bundles: first(&mut evidence.bundles, &marks.bundles),
            attestations: first(&mut evidence.attestations, &marks.attestations),
            messages: first(&mut evidence.messages, &marks.messages),
        })
    }
}

impl Marks {
    fn none(evidence: &Evidence) -> Self {
        Self {
            signatures: vec![false; evidence.signatures.len()],
            bundles: vec![false; evidence.bundles.len()],
            attestations: vec![false; evidence.attestations.len()],
            messages: vec![false; evidence.messages.len()],
        }
    }
}

/// Moves those that are marked to the beginning; how many they are.
fn first<T>(things: &mut Vec<T>, marks: &[bool]) -> usize {
    let marked = std::mem::take(things).into_iter().zip(marks);
    let (before, after): (Vec<_>, Vec<_>) = marked.partition(|(_, is_marked)| **is_marked);
    let count = before.len();
    things.extend(before.into_iter().chain(after).map(|(thing, _)| thing));
    count
}
