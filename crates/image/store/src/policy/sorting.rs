//! Which of an image's signatures a policy accepts: those are kept before all others.

use std::collections::HashSet;

use super::document::{Policy, Requirement};
use super::verdict::Subject;
use crate::store::{Accepted, Evidence, KnownBy, MAX_KEYS, now};
use crate::{Digest, Error, Reference, Result};

/// What is known of something that a requirement accepts.
#[derive(Debug)]
pub(super) struct Accepts {
    /// By whom it is, for people.
    pub(super) shown: String,
    /// The manifest or index that it is of.
    pub(super) digest: Digest,
    /// What was verified.
    verified: Digest,
}

/// What each thing of each kind is known by, where it is accepted, by their places.
#[derive(Debug)]
pub(super) struct Marks {
    /// The requirement that is looked at.
    requirement: Digest,
    pub(super) signatures: Vec<Mark>,
    pub(super) bundles: Vec<Mark>,
    pub(super) attestations: Vec<Mark>,
    pub(super) messages: Vec<Mark>,
}

/// What is known of one thing.
#[derive(Debug, Clone, Default)]
pub(super) struct Mark {
    keys: Vec<Digest>,
    /// The manifests and indexes that it is of.
    manifests: Vec<Digest>,
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
            marks.requirement = Digest::of(format!("{requirement:?}").as_bytes());
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
        let manifests = marks.manifests();
        let is_of_any = |digest: &Digest| manifests.contains(digest);
        let (first, others) = std::mem::take(&mut evidence.manifests)
            .into_iter()
            .partition::<Vec<_>, _>(is_of_any);
        let accepted_manifests = first.len();
        evidence.manifests = [first, others].concat();
        let known_by = KnownBy {
            signatures: first_of(&mut evidence.signatures, marks.signatures),
            bundles: first_of(&mut evidence.bundles, marks.bundles),
            attestations: first_of(&mut evidence.attestations, marks.attestations),
            messages: first_of(&mut evidence.messages, marks.messages),
        };
        Ok(Accepted {
            signatures: known_by.signatures.len(),
            bundles: known_by.bundles.len(),
            attestations: known_by.attestations.len(),
            messages: known_by.messages.len(),
            manifests: accepted_manifests,
            known_by,
        })
    }
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
    fn none(evidence: &Evidence) -> Self {
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
    fn manifests(&self) -> HashSet<Digest> {
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
fn first_of<T>(things: &mut Vec<T>, marks: Vec<Mark>) -> Vec<Vec<Digest>> {
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;
    use orlop_testkit::{Gpg, Scratch, machine, skip_unless};
    use serde_json::json;

    use super::*;

    #[test]
    fn messages_that_are_packed_otherwise_are_copies() {
        skip_unless!(machine::has_program("gpg"));
        let (mut gpg, scratch) = (Gpg::new(), Scratch::new());
        // At one moment a key makes the same signature over and over.
        gpg.set_time(Some("20240101T000000"));
        let key = gpg.make_key("a", "ed25519", "sign", "never");
        let file = scratch.path("key.gpg");
        std::fs::write(&file, gpg.export(&key)).unwrap();
        let digest = Digest::of(b"manifest");
        let sign = |tag: u8, options: &[&str]| {
            let name = format!("a.example/app:{tag}");
            let payload = orlop_testkit::gpg::image_payload(&digest.to_string(), &name);
            BASE64_STANDARD.encode(gpg.sign(&key, options, &payload))
        };
        let mut evidence = Evidence {
            manifests: vec![digest],
            messages: vec![
                sign(1, &["--compress-algo", "zip"]),
                sign(1, &["--compress-algo", "none"]),
                sign(2, &[]),
            ],
            ..Evidence::default()
        };
        let policy = json!({ "default": [{
            "type": "signedBy",
            "keyType": "GPGKeys",
            "keyPath": file,
            "signedIdentity": { "type": "matchRepository" },
        }] });
        let policy = Policy::parse(Path::new("/p.json"), policy.to_string().as_bytes()).unwrap();
        let name = "a.example/app:1".parse().unwrap();
        let accepted = policy.sort(&name, &mut evidence).unwrap();
        assert_eq!((accepted.messages, accepted.manifests), (3, 1));
        let known_by = accepted.known_by.messages;
        assert!(known_by[0] == known_by[1] && known_by[0] != known_by[2]);
        assert_ne!(evidence.messages[0], evidence.messages[1]);
    }
}
