//! What is kept of an image's signatures: beside the image, so that it can be judged anew by another policy, without
//! its registry.
//!
//! Whoever may write to one repository decides what is found there, and may fill it with rubbish. So what was found for
//! one repository never takes the room of what was found for another, and what a policy has accepted comes first.

mod accepted;
mod merge;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashSet};
use std::hash::Hash;

use serde::{Deserialize, Serialize};

pub(crate) use self::accepted::{Accepted, KnownBy, MAX_KEYS};
use crate::Digest;

/// Repositories that one image is kept for.
const MAX_REPOSITORIES: usize = 16;
/// Bytes of all that is kept of one image.
const MAX_TOGETHER: usize = 24 << 20;

/// Signatures of an image, none of them verified yet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Evidence {
    /// Manifests and indexes that have led to the image; who signs one of them signs the image.
    #[serde(default)]
    pub(crate) manifests: Vec<Digest>,
    /// The signatures found with these.
    #[serde(default)]
    pub(crate) signatures: Vec<Signature>,
    /// The bundles attached to these, as JSON.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) bundles: Vec<String>,
    /// The attestations at their tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) attestations: Vec<Attestation>,
    /// Messages signed with GPG that were found for these, in base64.
    #[serde(default)]
    pub(crate) messages: Vec<String>,
}

/// A signature as it came from a registry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Signature {
    /// What was signed.
    pub(crate) payload: String,
    /// The signature in base64.
    pub(crate) signature: String,
    /// The signer's certificate, in PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) certificate: Option<String>,
    /// Certificates that came with it, in PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) chain: Option<String>,
    /// What a log says of it, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) log: Option<String>,
    /// Whether an authority has said when it was made.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_stamped: bool,
}

/// An attestation that is in no bundle, as it came from a registry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Attestation {
    /// What was signed, with the signature: an envelope, as JSON.
    pub(crate) envelope: String,
    /// The signer's certificate, in PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) certificate: Option<String>,
    /// Certificates that came with it, in PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) chain: Option<String>,
    /// What a log says of it, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) log: Option<String>,
    /// Whether an authority has said when it was made.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_stamped: bool,
}

/// What a pull has found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    /// Whose they are: a name without tag and digest.
    pub(crate) repository: String,
    pub(crate) evidence: Evidence,
    pub(crate) accepted: Accepted,
    pub(crate) complete: Complete,
}

/// Of which kinds there was nothing else: no place that could not be asked, or was not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Complete {
    /// Signatures and bundles.
    pub(crate) attached: bool,
    /// Attestations at their tags.
    pub(crate) attestations: bool,
    pub(crate) messages: bool,
}

/// All that is kept of one image's signatures.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// By repository; what has changed last is first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    groups: Vec<Group>,
    /// What an earlier version has kept, which did not tell repositories apart.
    #[serde(flatten)]
    unsorted: Evidence,
}

/// What is kept for one repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Group {
    repository: String,
    #[serde(flatten)]
    evidence: Evidence,
    #[serde(default)]
    accepted: Accepted,
}

impl Kept {
    /// All of it together, each thing once; what was accepted for a repository before the rest of that.
    pub(crate) fn together(self) -> Evidence {
        let groups = self.groups.into_iter().map(|group| group.evidence);
        let mut all = Evidence::default();
        for evidence in groups.chain([self.unsorted]) {
            all.manifests.extend(evidence.manifests);
            all.signatures.extend(evidence.signatures);
            all.bundles.extend(evidence.bundles);
            all.attestations.extend(evidence.attestations);
            all.messages.extend(evidence.messages);
        }
        Evidence {
            manifests: distinct(all.manifests),
            signatures: distinct(all.signatures),
            bundles: distinct(all.bundles),
            attestations: distinct(all.attestations),
            messages: distinct(all.messages),
        }
    }

    /// Takes what a pull has found in. `named` are the repositories that the image has names of.
    pub(crate) fn add(&mut self, found: Findings, named: &BTreeSet<String>) {
        let is_same = |group: &Group| group.repository == found.repository;
        let at = self.groups.iter().position(is_same);
        let known = at.map(|at| self.groups[at].clone());
        let group = merge::merged(found, known.as_ref());
        if known.as_ref() == Some(&group) {
            return;
        }
        if let Some(at) = at {
            self.groups.remove(at);
        }
        self.groups.insert(0, group);
        self.evict(named);
        // Each of these repositories has its own by now.
        let is_known = |name: &String| self.groups.iter().any(|group| group.repository == *name);
        if named.iter().all(is_known) {
            self.unsorted = Evidence::default();
        }
    }

    /// Keeps what just came, and of the rest what the image still has names of, what was accepted, and what is newest,
    /// in this order, as far as there is room.
    fn evict(&mut self, named: &BTreeSet<String>) {
        let mut order: Vec<usize> = (0..self.groups.len()).collect();
        order.sort_by_key(|at| {
            let group = &self.groups[*at];
            let is_new = *at == 0;
            let is_named = named.contains(&group.repository);
            (!is_new, !is_named, group.accepted == Accepted::default())
        });
        let (mut room, mut stays) = (MAX_TOGETHER, vec![false; order.len()]);
        for at in order.into_iter().take(MAX_REPOSITORIES) {
            let left = room.checked_sub(self.groups[at].evidence.bytes());
            let Some(left) = left else { continue };
            (room, stays[at]) = (left, true);
        }
        let mut stays = stays.into_iter();
        self.groups.retain(|_| stays.next() == Some(true));
    }
}

impl Evidence {
    fn bytes(&self) -> usize {
        let texts = self.bundles.iter().chain(&self.messages).map(String::len);
        let signatures = self.signatures.iter().map(Signature::bytes);
        let attestations = self.attestations.iter().map(Attestation::bytes);
        texts.chain(signatures).chain(attestations).sum()
    }
}

impl Signature {
    /// How long it is, with all that came with it.
    pub(crate) fn bytes(&self) -> usize {
        let beside = [&self.certificate, &self.chain, &self.log];
        self.payload.len() + self.signature.len() + bytes_of(beside)
    }
}

impl Attestation {
    fn bytes(&self) -> usize {
        let beside = [&self.certificate, &self.chain, &self.log];
        self.envelope.len() + bytes_of(beside)
    }
}

fn bytes_of(beside: [&Option<String>; 3]) -> usize {
    beside.into_iter().flatten().map(String::len).sum()
}

/// Each thing where it is for the first time.
fn distinct<T: Clone + Eq + Hash>(all: Vec<T>) -> Vec<T> {
    let mut seen = HashSet::new();
    all.into_iter()
        .filter(|one| seen.insert(one.clone()))
        .collect()
}
