//! Tests of stored signatures from many writers, some of them malicious.

use super::merge::MAX_EACH;
use super::*;
use crate::Digest;

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
        complete: Complete {
            attached: true,
            attestations: true,
            messages: true,
        },
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
    broken_off.complete.attached = false;
    kept.add(broken_off, &named);
    assert!(has(&kept, "one") && has(&kept, "two"));
    // Of a different manifest that led to the same image.
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

#[test]
fn what_was_accepted_comes_before_all_else_of_whatever_kind() {
    let mut large = signatures("bad", MAX_EACH);
    for one in &mut large {
        one.chain = Some("x".repeat(96 << 10));
    }
    let text = |of: &str| format!("{of} {}", "x".repeat(200 << 10));
    let mut found = found("a", large, 0);
    let evidence = &mut found.evidence;
    evidence.bundles = vec![text("bundle"), text("other")];
    evidence.attestations = vec![Attestation {
        envelope: text("attestation"),
        ..Attestation::default()
    }];
    let mut messages = vec![text("message")];
    messages.extend((0..20).map(|one| format!("{one} {}", "x".repeat(100 << 10))));
    evidence.messages = messages;
    (found.accepted.bundles, found.accepted.attestations) = (1, 1);
    found.accepted.messages = 1;
    let mut kept = Kept::default();
    kept.add(found.clone(), &names(&["a"]));
    let accepted = &kept.groups[0].accepted;
    let counts = (accepted.bundles, accepted.attestations, accepted.messages);
    assert_eq!(counts, (1, 1, 1));
    let (all, wanted) = (kept.together(), found.evidence);
    assert_eq!(all.bundles.first(), wanted.bundles.first());
    assert_eq!(all.attestations, wanted.attestations);
    assert_eq!(all.messages.first(), wanted.messages.first());
    assert!(all.signatures.len() > 50, "{}", all.signatures.len());
}

#[test]
fn kinds_that_were_not_asked_for_stay() {
    let attestation = Attestation {
        envelope: "said".to_owned(),
        ..Attestation::default()
    };
    let mut first = found("a", signatures("one", 1), 0);
    first.evidence.attestations = vec![attestation.clone()];
    first.evidence.messages = vec!["message".to_owned()];
    let mut kept = Kept::default();
    let named = names(&["a"]);
    kept.add(first, &named);
    let mut second = found("a", signatures("two", 1), 0);
    second.complete.attestations = false;
    kept.add(second, &named);
    let all = kept.clone().together();
    assert_eq!(all.attestations, [attestation]);
    assert!(all.messages.is_empty() && !has(&kept, "one"));
    kept.add(found("a", signatures("two", 1), 0), &named);
    assert!(kept.together().attestations.is_empty());
}

/// Copies of one signature that were accepted for the same reason, each with different additional data.
fn copies(of: &str, beside: &[&str]) -> Findings {
    let mut found = found("a", Vec::new(), beside.len());
    for text in beside {
        let mut one = signatures(of, 1);
        one[0].chain = Some((*text).to_owned());
        found.evidence.signatures.extend(one);
    }
    found.accepted.known_by.signatures = vec![vec![digest(of)]; beside.len()];
    found
}

#[test]
fn of_copies_the_smallest_stays_and_the_smallest_that_came_last() {
    let mut kept = Kept::default();
    let named = names(&["a"]);
    let chains = |kept: &Kept| -> Vec<String> {
        let signatures = kept.groups[0].evidence.signatures.iter();
        signatures.filter_map(|one| one.chain.clone()).collect()
    };
    kept.add(copies("good", &["22", "333"]), &named);
    assert_eq!(kept.groups[0].accepted.signatures, 1);
    // The other copy is still stored, like an item that was not accepted.
    assert_eq!(chains(&kept), ["22", "333"]);
    kept.add(copies("good", &["4444"]), &named);
    assert_eq!(chains(&kept), ["4444", "22"]);
    kept.add(copies("good", &["55555"]), &named);
    assert_eq!(chains(&kept), ["55555", "22"]);
    kept.add(copies("good", &["1"]), &named);
    assert_eq!(chains(&kept), ["1"]);
    let mut other = copies("good", &["7777777"]);
    other.accepted.known_by.signatures = vec![vec![digest("other reason")]];
    kept.add(other, &named);
    assert_eq!(chains(&kept), ["7777777", "1"]);
    let mut both = copies("good", &["1"]);
    both.accepted.known_by.signatures = vec![vec![digest("other reason")]];
    kept.add(both, &named);
    assert_eq!(chains(&kept), ["1"]);
    let known_by = [digest("other reason"), digest("good")];
    assert_eq!(kept.groups[0].accepted.known_by.signatures, [known_by]);
}

#[test]
fn large_copies_of_what_was_accepted_leave_it_and_others_room() {
    let mut kept = Kept::default();
    let named = names(&["a"]);
    let [small, large] = [100 << 10, 1 << 20].map(|bytes| "x".repeat(bytes));
    for text in [&small, &large] {
        for of in 0..15 {
            kept.add(copies(&format!("good {of}"), &[text]), &named);
        }
    }
    let mut signatures = kept.together().signatures;
    signatures.retain(|one| one.chain.as_ref() == Some(&small));
    assert_eq!(signatures.len(), 15);
}

#[test]
fn manifests_of_what_was_accepted_stay() {
    let mut kept = Kept::default();
    let named = names(&["a"]);
    let mut first = found("a", signatures("good", 1), 1);
    first.evidence.manifests = vec![digest("index"), digest("m")];
    first.accepted.manifests = 1;
    kept.add(first, &named);
    for number in 0..40 {
        let mut other = found("a", Vec::new(), 0);
        other.evidence.manifests = vec![digest(&format!("other {number}"))];
        kept.add(other, &named);
    }
    let manifests = kept.together().manifests;
    assert_eq!(manifests.len(), 32);
    assert!(manifests.contains(&digest("index")) && !manifests.contains(&digest("m")));
}

#[test]
fn what_an_earlier_version_has_accepted_stays() {
    let old = serde_json::json!({ "groups": [{
        "repository": "a",
        "manifests": [digest("m").to_string()],
        "signatures": signatures("old", 2),
        "accepted": { "signatures": 1, "bundles": 0, "messages": 0 },
    }]});
    let mut kept: Kept = serde_json::from_value(old).unwrap();
    kept.add(found("a", Vec::new(), 0), &names(&["a"]));
    assert_eq!(kept.together().signatures, signatures("old", 1));
}
