//! The properties of a signature that a policy can accept.

use std::collections::HashSet;

use crate::Digest;
use crate::evidence::{Evidence, MAX_KEYS};

/// What is known of something that a requirement accepts.
#[derive(Debug)]
pub(crate) struct Accepts {
    /// By whom it is, for people.
    pub(super) shown: String,
    /// The manifest or index that it is of.
    pub(super) digest: Digest,
    /// What was verified.
    verified: Digest,
}

/// What each thing of each kind is known by, where it is accepted, by their places.
#[derive(Debug)]
pub(crate) struct Marks {
    /// The requirement that is looked at.
    pub(super) requirement: Digest,
    pub(super) signatures: Vec<Mark>,
    pub(super) bundles: Vec<Mark>,
    pub(super) attestations: Vec<Mark>,
    pub(super) messages: Vec<Mark>,
}

/// What is known of one thing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Mark {
    keys: Vec<Digest>,
    /// The manifests and indexes that it is of.
    manifests: Vec<Digest>,
}

impl Accepts {
    /// `verified` is all that makes it what it is.
    pub(super) fn new(shown: String, digest: Digest, verified: [&[u8]; 2]) -> Self {
        let parts = verified.map(Digest::of);
        Self {
            shown,
            digest,
            verified: Digest::of(format!("{parts:?}").as_bytes()),
        }
    }
}

impl Marks {
    /// None yet, of all that there is.
    pub(super) fn none(evidence: &Evidence) -> Self {
        let none = |count| vec![Mark::default(); count];
        Self {
            requirement: Digest::of(&[]),
            signatures: none(evidence.signatures.len()),
            bundles: none(evidence.bundles.len()),
            attestations: none(evidence.attestations.len()),
            messages: none(evidence.messages.len()),
        }
    }

    /// The requirement that is looked at.
    pub(super) fn requirement(&self) -> Digest {
        self.requirement
    }

    /// What the accepted things are of.
    pub(super) fn manifests(&self) -> HashSet<Digest> {
        let kinds = [
            &self.signatures,
            &self.bundles,
            &self.attestations,
            &self.messages,
        ];
        let marks = kinds.into_iter().flatten();
        marks.flat_map(|mark| &mark.manifests).copied().collect()
    }
}

impl Mark {
    /// Takes down that this requirement accepts it.
    pub(super) fn add(&mut self, requirement: Digest, accepts: &Accepts) {
        // Others may accept the same bytes for other reasons, of which this one says nothing.
        let key = format!("{requirement} {}", accepts.verified);
        if self.keys.len() < MAX_KEYS {
            self.keys.push(Digest::of(key.as_bytes()));
        }
        self.manifests.push(accepts.digest);
    }
}

/// Moves those that are accepted to the beginning; what these are known by.
pub(super) fn first_of<T>(things: &mut Vec<T>, marks: Vec<Mark>) -> Vec<Vec<Digest>> {
    let marked = std::mem::take(things).into_iter().zip(marks);
    let (before, after): (Vec<_>, Vec<_>) = marked.partition(|(_, mark)| !mark.keys.is_empty());
    let (before, known_by): (Vec<_>, Vec<_>) = before
        .into_iter()
        .map(|(one, mark)| (one, mark.keys))
        .unzip();
    let after = after.into_iter().map(|(thing, _)| thing);
    things.extend(before.into_iter().chain(after));
    known_by
}
