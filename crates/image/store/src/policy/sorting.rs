//! Sorts an image's signatures by a policy: accepted ones are stored with priority.

use super::document::{Policy, Requirement};
use super::marks::{Marks, first_of};
use super::subject::Subject;
use crate::clock::now;
use crate::evidence::{Accepted, Evidence, KnownBy};
use crate::{Digest, Error, Reference, Result};

impl Policy {
    /// Moves the items that this policy accepts for the name to the front. Fails if a key cannot be read. Blocks.
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
        // With a fixed time, a key always makes the same signature.
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
