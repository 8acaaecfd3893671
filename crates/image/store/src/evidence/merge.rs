//! Merges the findings of a pull with the stored signatures of the same repository.
//!
//! Accepted items of all kinds come first, before any others get space. Anyone can copy an accepted item and change
//! parts that a policy does not check. So of the items that are accepted for the same reason, only the smallest one
//! stays, and the smallest one of the latest pull.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;

use serde::{Deserialize, Serialize};

use super::accepted::{Accepted, KnownBy, MAX_KEYS};
use super::found::{Attestation, Evidence, Findings, Signature, distinct};
use crate::Digest;

/// Maximum number of manifests and indexes per repository.
const MAX_MANIFESTS: usize = 32;
/// Maximum number of items of one kind per repository.
pub(super) const MAX_EACH: usize = 128;
/// Maximum size of signatures, bundles and attestations per repository.
const MAX_BYTES: usize = 8 << 20;
/// Maximum size of messages per repository, in base64.
const MAX_MESSAGES: usize = 1 << 20;

/// The stored findings of one repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Group {
    pub(super) repository: String,
    #[serde(flatten)]
    pub(super) evidence: Evidence,
    #[serde(default)]
    pub(super) accepted: Accepted,
}

/// Merges new findings with the stored ones. A complete search of the same manifests replaces the stored items.
/// Accepted items always stay.
pub(super) fn merged(found: Findings, known: Option<&Group>) -> Group {
    let (new, accepted) = (found.evidence, found.accepted);
    let nothing = (Evidence::default(), Accepted::default());
    let (old, before) = known.map_or(nothing, |it| (it.evidence.clone(), it.accepted.clone()));
    let mut manifests = old.manifests.iter();
    let is_of_all = manifests.all(|digest| new.manifests.contains(digest));
    let is_replaced = |is_complete: bool| is_complete && is_of_all;
    let (ways, ways_before) = (accepted.known_by, before.known_by);
    let is_attached_replaced = is_replaced(found.complete.attached);
    let mut signatures = Merged::of(
        Sorted::of(new.signatures, accepted.signatures, ways.signatures),
        Sorted::of(old.signatures, before.signatures, ways_before.signatures),
        is_attached_replaced,
    );
    let mut bundles = Merged::of(
        Sorted::of(new.bundles, accepted.bundles, ways.bundles),
        Sorted::of(old.bundles, before.bundles, ways_before.bundles),
        is_attached_replaced,
    );
    let mut attestations = Merged::of(
        Sorted::of(new.attestations, accepted.attestations, ways.attestations),
        Sorted::of(
            old.attestations,
            before.attestations,
            ways_before.attestations,
        ),
        is_replaced(found.complete.attestations),
    );
    let mut messages = Merged::of(
        Sorted::of(new.messages, accepted.messages, ways.messages),
        Sorted::of(old.messages, before.messages, ways_before.messages),
        is_replaced(found.complete.messages),
    );
    let mut room = MAX_BYTES;
    let sizes = [signatures.sizes(), bundles.sizes(), attestations.sizes()];
    let [first, second, third] = fitting(sizes, &mut room);
    signatures.retain(&first);
    bundles.retain(&second);
    attestations.retain(&third);
    let mut other_room = MAX_MESSAGES;
    let [only] = fitting([messages.sizes()], &mut other_room);
    messages.retain(&only);
    let (signatures, signatures_known_by) = signatures.filled(&mut room);
    let (bundles, bundles_known_by) = bundles.filled(&mut room);
    let (attestations, attestations_known_by) = attestations.filled(&mut room);
    let (messages, messages_known_by) = messages.filled(&mut other_room);
    let (manifests, accepted_manifests) = all_manifests(
        (new.manifests, accepted.manifests),
        (old.manifests, before.manifests),
    );
    Group {
        repository: found.repository,
        evidence: Evidence {
            manifests,
            signatures,
            bundles,
            attestations,
            messages,
        },
        accepted: Accepted {
            signatures: signatures_known_by.len(),
            bundles: bundles_known_by.len(),
            attestations: attestations_known_by.len(),
            messages: messages_known_by.len(),
            manifests: accepted_manifests,
            known_by: KnownBy {
                signatures: signatures_known_by,
                bundles: bundles_known_by,
                attestations: attestations_known_by,
                messages: messages_known_by,
            },
        },
    }
}

/// Returns the manifests of accepted items, then the others, and the number of the former.
fn all_manifests(
    (mut new, accepted): (Vec<Digest>, usize),
    (mut old, before): (Vec<Digest>, usize),
) -> (Vec<Digest>, usize) {
    let new_rest = new.split_off(accepted.min(new.len()));
    let old_rest = old.split_off(before.min(old.len()));
    let first = distinct([new, old].concat());
    let count = first.len().min(MAX_MANIFESTS);
    let mut all = distinct([first, new_rest, old_rest].concat());
    all.truncate(MAX_MANIFESTS);
    (all, count)
}

/// Selects the items that fit, small ones first. The input is their sizes by kind.
fn fitting<const KINDS: usize>(sizes: [Vec<usize>; KINDS], room: &mut usize) -> [Vec<bool>; KINDS] {
    let mut fit = sizes.each_ref().map(|some| vec![false; some.len()]);
    let places = sizes.iter().zip(&mut fit);
    let mut places: Vec<_> = places
        .flat_map(|(sizes, fit)| sizes.iter().zip(fit))
        .collect();
    places.sort_by_key(|(bytes, _)| **bytes);
    for (bytes, fits) in places {
        let Some(left) = room.checked_sub(*bytes) else {
            break;
        };
        (*room, *fits) = (left, true);
    }
    fit
}

/// An item that is stored.
trait Thing: Clone + Eq + Hash + Debug {
    fn bytes(&self) -> usize;
}

impl Thing for Signature {
    fn bytes(&self) -> usize {
        Signature::bytes(self)
    }
}

impl Thing for Attestation {
    fn bytes(&self) -> usize {
        Attestation::bytes(self)
    }
}

impl Thing for String {
    fn bytes(&self) -> usize {
        self.len()
    }
}

/// An item that was accepted.
struct Known<T> {
    thing: T,
    /// Its keys.
    keys: Vec<Digest>,
}

/// Items of one kind from one search.
struct Sorted<T> {
    accepted: Vec<Known<T>>,
    rest: Vec<T>,
}

impl<T: Thing> Sorted<T> {
    /// Splits the items; the first `count` are accepted.
    fn of(mut things: Vec<T>, count: usize, known_by: Vec<Vec<Digest>>) -> Self {
        let rest = things.split_off(count.min(things.len()));
        let mut known_by = known_by.into_iter();
        let accepted = things.into_iter().map(|thing| {
            let mut keys = known_by.next().unwrap_or_default();
            if keys.is_empty() {
                keys.push(Digest::of(format!("{thing:?}").as_bytes()));
            }
            Known { thing, keys }
        });
        Self {
            accepted: accepted.collect(),
            rest,
        }
    }

    /// Returns the size and index of the smallest item with each key.
    fn smallest(&self) -> HashMap<Digest, (usize, usize)> {
        let mut smallest = HashMap::new();
        for (place, one) in self.accepted.iter().enumerate() {
            let this = (one.thing.bytes(), place);
            for key in &one.keys {
                let least = smallest.entry(*key).or_insert(this);
                *least = this.min(*least);
            }
        }
        smallest
    }
}

/// New and old items of one kind.
struct Merged<T> {
    accepted: Vec<Known<T>>,
    rest: Vec<T>,
}

impl<T: Thing> Merged<T> {
    fn of(new: Sorted<T>, old: Sorted<T>, is_replaced: bool) -> Self {
        let (smallest, smallest_before) = (new.smallest(), old.smallest());
        let mut accepted = Vec::new();
        let mut rest = Vec::new();
        for (place, one) in new.accepted.into_iter().enumerate() {
            if one.keys.iter().any(|key| smallest[key].1 == place) {
                add(&mut accepted, one);
            } else {
                rest.push(one.thing);
            }
        }
        let mut old_rest = Vec::new();
        for (place, one) in old.accepted.into_iter().enumerate() {
            // A copy can be inflated arbitrarily: it does not replace a smaller item.
            let bytes = one.thing.bytes();
            let is_needed = |key: &Digest| {
                let has_better = smallest.get(key).is_some_and(|least| least.0 <= bytes);
                smallest_before[key].1 == place && !has_better
            };
            if one.keys.iter().any(is_needed) {
                add(&mut accepted, one);
            } else {
                old_rest.push(one.thing);
            }
        }
        accepted.truncate(MAX_EACH);
        rest.extend(new.rest);
        if !is_replaced {
            rest.extend(old_rest);
            rest.extend(old.rest);
        }
        Self { accepted, rest }
    }

    fn sizes(&self) -> Vec<usize> {
        let things = self.accepted.iter();
        things.map(|one| one.thing.bytes()).collect()
    }

    /// Keeps the selected accepted items.
    fn retain(&mut self, which: &[bool]) {
        let mut which = which.iter();
        self.accepted.retain(|_| which.next() == Some(&true));
    }

    /// Returns the accepted items and as many others as fit, and the keys of the accepted ones.
    fn filled(self, room: &mut usize) -> (Vec<T>, Vec<Vec<Digest>>) {
        let (mut kept, known_by): (Vec<_>, Vec<_>) = self
            .accepted
            .into_iter()
            .map(|one| (one.thing, one.keys))
            .unzip();
        let count = kept.len();
        for one in distinct([kept.clone(), self.rest].concat())
            .into_iter()
            .skip(count)
        {
            let left = room.checked_sub(one.bytes());
            let Some(left) = left.filter(|_| kept.len() < MAX_EACH) else {
                continue;
            };
            *room = left;
            kept.push(one);
        }
        (kept, known_by)
    }
}

/// Adds an item, or adds its keys to an equal item.
fn add<T: Thing>(all: &mut Vec<Known<T>>, one: Known<T>) {
    match all.iter_mut().find(|it| it.thing == one.thing) {
        Some(same) => {
            same.keys = distinct([std::mem::take(&mut same.keys), one.keys].concat());
            same.keys.truncate(MAX_KEYS);
        }
        None => all.push(one),
    }
}
