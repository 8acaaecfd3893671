//! What is kept of an image's signatures: beside the image, so that it can be judged anew by another policy, without
//! its registry.
//!
//! Whoever may write to one repository decides what is found there, and may fill it with rubbish. So what was found for
//! one repository never takes the room of what was found for another, and what a policy has accepted comes first.

use std::collections::{BTreeSet, HashSet};
use std::hash::Hash;

use serde::{Deserialize, Serialize};

use crate::Digest;

/// Manifests and indexes of one repository.
const MAX_MANIFESTS: usize = 32;
/// Things of one kind that are kept for one repository.
const MAX_EACH: usize = 128;
/// Bytes of signatures and bundles that are kept for one repository.
const MAX_BYTES: usize = 8 << 20;
/// Bytes of messages that are kept for one repository, in base64.
const MAX_MESSAGES: usize = 1 << 20;
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

/// How many things of each kind a policy has accepted: those that come first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Accepted {
    pub(crate) signatures: usize,
    pub(crate) bundles: usize,
    #[serde(default)]
    pub(crate) attestations: usize,
    pub(crate) messages: usize,
}

/// What a pull has found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    /// Whose they are: a name without tag and digest.
    pub(crate) repository: String,
    pub(crate) evidence: Evidence,
    pub(crate) accepted: Accepted,
    /// Whether there was nothing else: no place that could not be asked.
    pub(crate) is_complete: bool,
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
        let group = Group::of(found, known.as_ref());
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

impl Group {
    /// What was found takes the place of what is known of the same manifests, unless there may be more than was found.
    /// What was accepted stays in any case.
    fn of(found: Findings, known: Option<&Self>) -> Self {
        let (new, accepted) = (found.evidence, found.accepted);
        let nothing = (Evidence::default(), Accepted::default());
        let (old, before) = known.map_or(nothing, |it| (it.evidence.clone(), it.accepted));
        let is_replaced = found.is_complete
            && old
                .manifests
                .iter()
                .all(|digest| new.manifests.contains(digest));
        let mut room = MAX_BYTES;
        let (new_signatures, old_signatures) = (
            (new.signatures, accepted.signatures),
            (old.signatures, before.signatures),
        );
        let (signatures, accepted_signatures) = merged(
            new_signatures,
            old_signatures,
            is_replaced,
            &mut room,
            Signature::bytes,
        );
        let (bundles, accepted_bundles) = merged(
            (new.bundles, accepted.bundles),
            (old.bundles, before.bundles),
            is_replaced,
            &mut room,
            String::len,
        );
        let (attestations, accepted_attestations) = merged(
            (new.attestations, accepted.attestations),
            (old.attestations, before.attestations),
            is_replaced,
            &mut room,
            Attestation::bytes,
        );
        let (messages, accepted_messages) = merged(
            (new.messages, accepted.messages),
            (old.messages, before.messages),
            is_replaced,
            &mut { MAX_MESSAGES },
            String::len,
        );
        let mut manifests = distinct([new.manifests, old.manifests].concat());
        manifests.truncate(MAX_MANIFESTS);
        Self {
            repository: found.repository,
            evidence: Evidence {
                manifests,
                signatures,
                bundles,
                attestations,
                messages,
            },
            accepted: Accepted {
                signatures: accepted_signatures,
                bundles: accepted_bundles,
                attestations: accepted_attestations,
                messages: accepted_messages,
            },
        }
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
    fn bytes(&self) -> usize {
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

/// Things of one kind, of which the first ones are accepted.
type Sorted<T> = (Vec<T>, usize);

/// What is accepted of both, then the rest, as much as there is room for.
fn merged<T: Clone + Eq + Hash>(
    (mut new, new_accepted): Sorted<T>,
    (mut old, old_accepted): Sorted<T>,
    is_replaced: bool,
    room: &mut usize,
    bytes: impl Fn(&T) -> usize,
) -> Sorted<T> {
    let new_rest = new.split_off(new_accepted.min(new.len()));
    let old_rest = old.split_off(old_accepted.min(old.len()));
    let accepted = distinct([new, old].concat());
    let count = accepted.len();
    let old_rest = if is_replaced { Vec::new() } else { old_rest };
    let mut kept = Vec::new();
    let mut kept_accepted = 0;
    let all = distinct([accepted, new_rest, old_rest].concat());
    for (place, one) in all.into_iter().enumerate() {
        let left = room.checked_sub(bytes(&one));
        let Some(left) = left.filter(|_| kept.len() < MAX_EACH) else {
            continue;
        };
        *room = left;
        kept_accepted += usize::from(place < count);
        kept.push(one);
    }
    (kept, kept_accepted)
}

/// Each thing where it is for the first time.
fn distinct<T: Clone + Eq + Hash>(all: Vec<T>) -> Vec<T> {
    let mut seen = HashSet::new();
    all.into_iter()
        .filter(|one| seen.insert(one.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(of: &str) -> Digest {
        Digest::of(of.as_bytes())
    }

    fn signatures(of: &str, count: usize) -> Vec<Signature> {
        let one = |number| Signature {
            signature: format!("{of} {number}"),
            ..Signature::default()
        };
        (0..count).map(one).collect()
    }

    fn found(repository: &str, signatures: Vec<Signature>, accepted: usize) -> Findings {
        Findings {
            repository: repository.to_owned(),
            evidence: Evidence {
                manifests: vec![digest("m")],
                signatures,
                ..Evidence::default()
            },
            accepted: Accepted {
                signatures: accepted,
                ..Accepted::default()
            },
            is_complete: true,
        }
    }

    fn names(of: &[&str]) -> BTreeSet<String> {
        of.iter().map(|name| (*name).to_owned()).collect()
    }

    fn has(kept: &Kept, of: &str) -> bool {
        let kept = kept.clone().together();
        signatures(of, 1)
            .iter()
            .all(|it| kept.signatures.contains(it))
    }

    #[test]
    fn rubbish_of_one_repository_leaves_that_of_another_alone() {
        let mut kept = Kept::default();
        let named = names(&["good", "bad"]);
        kept.add(found("good", signatures("good", 1), 1), &named);
        for turn in 0..10 {
            let rubbish = signatures(&format!("bad {turn}"), 500);
            kept.add(found("bad", rubbish, 0), &named);
        }
        assert!(has(&kept, "good"));
        assert_eq!(kept.together().signatures.len(), MAX_EACH + 1);
    }

    #[test]
    fn what_was_accepted_stays_whatever_is_found_later() {
        let mut kept = Kept::default();
        let named = names(&["a"]);
        let first = [signatures("good", 1), signatures("other", 3)].concat();
        kept.add(found("a", first, 1), &named);
        kept.add(found("a", signatures("bad", 500), 0), &named);
        assert!(has(&kept, "good") && has(&kept, "bad") && !has(&kept, "other"));
        let mut better = signatures("new", MAX_EACH - 1);
        better.extend(signatures("bad", 7));
        kept.add(found("a", better, MAX_EACH - 1), &named);
        assert!(has(&kept, "good") && has(&kept, "new") && !has(&kept, "bad"));
        assert_eq!(kept.groups[0].accepted.signatures, MAX_EACH);
    }

    #[test]
    fn what_is_found_takes_the_place_of_what_was_unless_there_may_be_more() {
        let named = names(&["a"]);
        let mut kept = Kept::default();
        kept.add(found("a", signatures("one", 1), 0), &named);
        let mut broken_off = found("a", signatures("two", 1), 0);
        broken_off.is_complete = false;
        kept.add(broken_off, &named);
        assert!(has(&kept, "one") && has(&kept, "two"));
        // Of another manifest, which has led to the same image.
        let mut other = found("a", signatures("three", 1), 0);
        other.evidence.manifests = vec![digest("other")];
        kept.add(other, &named);
        assert!(has(&kept, "one") && has(&kept, "three"));
        let mut all = found("a", signatures("four", 1), 0);
        all.evidence.manifests.push(digest("other"));
        kept.add(all, &named);
        assert!(has(&kept, "four") && !has(&kept, "one") && !has(&kept, "three"));
        assert_eq!(kept.together().manifests, [digest("m"), digest("other")]);
    }

    #[test]
    fn what_two_repositories_have_is_there_once() {
        let mut kept = Kept::default();
        let named = names(&["a", "b"]);
        for name in ["a", "b"] {
            kept.add(found(name, signatures("same", 2), 1), &named);
        }
        let mut differs = signatures("same", 1);
        differs[0].log = Some("{}".to_owned());
        kept.add(found("c", differs, 0), &named);
        let together = kept.together();
        assert_eq!(together.signatures.len(), 3);
        assert_eq!(together.manifests.len(), 1);
    }

    #[test]
    fn of_too_many_repositories_those_go_that_matter_least() {
        let mut kept = Kept::default();
        let many: Vec<String> = (0..40).map(|number| format!("bad {number}")).collect();
        let mut named = names(&["good"]);
        kept.add(found("good", signatures("good", 1), 1), &named);
        kept.add(found("gone", signatures("gone", 1), 1), &named);
        for name in &many {
            named.insert(name.clone());
            kept.add(found(name, signatures(name, 1), 0), &named);
        }
        assert_eq!(kept.groups.len(), MAX_REPOSITORIES);
        assert!(has(&kept, "good") && has(&kept, "bad 39") && has(&kept, "bad 38"));
        assert!(!has(&kept, "gone") && !has(&kept, "bad 0"));
    }

    #[test]
    fn no_more_bytes_are_kept_than_there_is_room_for() {
        let mut kept = Kept::default();
        let mut named = names(&["good"]);
        kept.add(found("good", signatures("good", 1), 1), &named);
        for number in 0..6 {
            let name = format!("bad {number}");
            named.insert(name.clone());
            let mut large = found(&name, Vec::new(), 0);
            large.evidence.bundles = (0..12)
                .map(|one| format!("{one} {}", "x".repeat(1 << 20)))
                .collect();
            large.evidence.messages = large.evidence.bundles.clone();
            kept.add(large, &named);
        }
        let bytes: usize = kept.groups.iter().map(|it| it.evidence.bytes()).sum();
        assert!((MAX_TOGETHER / 2..MAX_TOGETHER).contains(&bytes), "{bytes}");
        assert!(has(&kept, "good"));
        assert_eq!(kept.groups[0].repository, "bad 5");
    }

    #[test]
    fn what_an_earlier_version_has_kept_is_there_until_all_is_found_anew() {
        let old = serde_json::json!({
            "manifests": [digest("m").to_string()],
            "signatures": signatures("old", 1),
        });
        let mut kept: Kept = serde_json::from_value(old).unwrap();
        assert!(has(&kept, "old"));
        let named = names(&["a", "b"]);
        kept.add(found("a", signatures("a", 1), 1), &named);
        let text = serde_json::to_string(&kept).unwrap();
        let mut kept: Kept = serde_json::from_str(&text).unwrap();
        assert!(has(&kept, "old") && has(&kept, "a"));
        kept.add(found("b", signatures("b", 1), 1), &named);
        assert!(!has(&kept, "old") && has(&kept, "a") && has(&kept, "b"));
        let text = serde_json::to_string(&kept).unwrap();
        assert_eq!(serde_json::from_str::<Kept>(&text).unwrap(), kept);
    }
}
