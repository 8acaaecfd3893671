//! The stored signatures of an image. With them, a changed policy can check the image again without its registry.
//!
//! Anyone with write access to a repository controls the signatures found there, and may add useless ones. So the
//! findings of one repository never displace those of another, and accepted signatures come first.

mod accepted;
mod found;
mod merge;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

pub(crate) use self::accepted::{Accepted, KnownBy, MAX_KEYS};
use self::found::distinct;
pub(crate) use self::found::{Attestation, Complete, Evidence, Findings, Signature};
use self::merge::Group;

/// Maximum number of repositories stored per image.
const MAX_REPOSITORIES: usize = 16;
/// Maximum size of all stored signatures of an image.
const MAX_TOGETHER: usize = 24 << 20;

/// All stored signatures of an image.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// Findings by repository, the latest change first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    groups: Vec<Group>,
    /// Findings of an earlier version, which did not separate repositories.
    #[serde(flatten)]
    unsorted: Evidence,
}

impl Kept {
    /// Returns all findings without duplicates. Within a repository, accepted ones come first.
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

    /// Adds the findings of a pull. `named` are the repositories of the image's names.
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
        // Each of these repositories has its own group now.
        let is_known = |name: &String| self.groups.iter().any(|group| group.repository == *name);
        if named.iter().all(is_known) {
            self.unsorted = Evidence::default();
        }
    }

    /// Removes groups beyond the limits. Keeps first the newest group, then groups of the image's names, then groups
    /// with accepted signatures.
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
