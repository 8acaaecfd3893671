//! Records which signatures a policy accepts.

use std::collections::HashSet;

use crate::Digest;
use crate::evidence::{Evidence, MAX_KEYS};

/// Properties of an item that a requirement accepts.
#[derive(Debug)]
pub(crate) struct Accepts {
    /// Description of the signer for messages.
    pub(super) shown: String,
    /// The signed manifest or index.
    pub(super) digest: Digest,
    /// Digest of the verified content.
    verified: Digest,
}

/// The marks of all items, in the order of the items.
#[derive(Debug)]
pub(crate) struct Marks {
    /// The requirement that is being checked.
    pub(super) requirement: Digest,
    pub(super) signatures: Vec<Mark>,
    pub(super) bundles: Vec<Mark>,
    pub(super) attestations: Vec<Mark>,
    pub(super) messages: Vec<Mark>,
}

/// The mark of one item.
#[derive(Debug, Clone, Default)]
pub(crate) struct Mark {
    keys: Vec<Digest>,
    /// The manifests and indexes that it signs.
    manifests: Vec<Digest>,
}

impl Accepts {
    /// Describes an accepted item. `verified` contains everything that identifies it.
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
    /// Creates empty marks for all items.
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

    /// Returns the requirement that is being checked.
    pub(super) fn requirement(&self) -> Digest {
        self.requirement
    }

    /// Returns the manifests and indexes that accepted items sign.
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
    /// Records that the requirement accepts the item.
    pub(super) fn add(&mut self, requirement: Digest, accepts: &Accepts) {
        // The requirement is part of the key, because other requirements may accept the same bytes for other reasons.
        let key = format!("{requirement} {}", accepts.verified);
        if self.keys.len() < MAX_KEYS {
            self.keys.push(Digest::of(key.as_bytes()));
        }
        self.manifests.push(accepts.digest);
    }
}

/// Moves accepted items to the beginning, and returns their keys.
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
