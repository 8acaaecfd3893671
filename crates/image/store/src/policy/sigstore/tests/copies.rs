//! Copies of what is accepted, which anybody may make: they are known by the same.

use std::collections::HashSet;

use super::*;
use crate::evidence::{Accepted, Attestation, Signature};

const SAID: &str = "https://slsa.dev/provenance/v1";

impl Scene {
    fn by_key(&self, person: &Person) -> Value {
        let key = self.write("key.pub", &person.key.pem());
        json!({
            "type": "sigstoreSigned",
            "keyPath": key,
            "signedIdentity": { "type": "matchRepository" },
        })
    }
}

/// What of it policies accept that each have one of these requirements.
fn sort(requirements: &[&Value], evidence: &mut Evidence) -> Vec<Accepted> {
    let name: Reference = "a.example/app:1".parse().unwrap();
    let sort = |requirement: &&Value| {
        let policy = json!({ "default": [requirement] }).to_string();
        let policy = Policy::parse(Path::new("/p.json"), policy.as_bytes()).unwrap();
        policy.sort(&name, evidence).unwrap()
    };
    requirements.iter().map(sort).collect()
}

fn distinct(known_by: &[Vec<Digest>]) -> usize {
    let all: HashSet<_> = known_by.iter().flatten().collect();
    all.len()
}

#[test]
fn signatures_with_other_things_beside_them_are_copies() {
    let scene = Scene::new();
    let person = Person::with(Key::new());
    let digest = scene.image.to_string();
    let good = kept(&person.sign_image(&digest, "a.example/app:1", None));
    let mut lines = good.signature.clone();
    lines.insert(10, '\n');
    let signatures = vec![
        Signature {
            certificate: Some("x".to_owned()),
            ..good.clone()
        },
        Signature {
            log: Some("{}".to_owned()),
            signature: lines,
            ..good.clone()
        },
        kept(&person.sign_image(&digest, "a.example/app:2", None)),
        good,
    ];
    let mut evidence = Evidence {
        manifests: vec![Digest::of(b"index"), scene.image],
        signatures,
        ..Evidence::default()
    };
    let wanted = scene.by_key(&person);
    let accepted = &sort(&[&wanted], &mut evidence)[0];
    assert_eq!((accepted.signatures, accepted.manifests), (4, 1));
    assert_eq!(evidence.manifests, [scene.image, Digest::of(b"index")]);
    let keys = &accepted.known_by.signatures;
    assert_eq!(distinct(keys), 2);
    assert!(keys[0] == keys[1] && keys[0] == keys[3]);
}

#[test]
fn who_looks_at_more_knows_a_signature_by_something_else() {
    let scene = Scene::new();
    let (person, digest) = (scene.person(), scene.image.to_string());
    let good = kept(&person.sign_image(&digest, "a.example/app:1", Some((&scene.log, USED))));
    let mut bare = good.clone();
    (bare.certificate, bare.log) = (None, None);
    let mut evidence = Evidence {
        manifests: vec![scene.image],
        signatures: vec![bare, good.clone()],
        ..Evidence::default()
    };
    let (by_key, by_login) = (scene.by_key(&person), scene.fulcio("matchRepository"));
    let accepted = sort(&[&by_key, &by_login], &mut evidence);
    assert_eq!(distinct(&accepted[0].known_by.signatures), 1);
    assert_eq!(accepted[1].signatures, 1);
    assert_eq!(evidence.signatures[0], good);
    let both = [&accepted[0], &accepted[1]].map(|it| it.known_by.signatures[0].clone());
    assert_eq!(distinct(&both), 2);
}

#[test]
fn bundles_and_envelopes_that_are_written_otherwise_are_copies() {
    let scene = Scene::new();
    let person = scene.person();
    let said = scene.statement(Some("a.example/app"), SAID);
    let bundle = person.bundle(&said, Some((&scene.log, USED)));
    let mut more = bundle.clone();
    more["x"] = json!([1, 2]);
    let other = scene.statement(Some("a.example/app:1"), SAID);
    let attested = person.attest(&said, Some((&scene.log, USED)));
    let envelope: Value = serde_json::from_str(&attested.envelope).unwrap();
    let attestation = |envelope: String| Attestation {
        envelope,
        certificate: attested.certificate.clone(),
        chain: attested.chain.clone(),
        log: attested.log.clone(),
        is_stamped: false,
    };
    let mut evidence = Evidence {
        manifests: vec![scene.image],
        bundles: vec![
            bundle.to_string(),
            serde_json::to_string_pretty(&bundle).unwrap(),
            more.to_string(),
            scene.bundle(&person, &other),
        ],
        attestations: vec![
            attestation(attested.envelope.clone()),
            attestation(serde_json::to_string_pretty(&envelope).unwrap()),
        ],
        ..Evidence::default()
    };
    let mut wanted = scene.fulcio("matchRepository");
    wanted["predicateTypes"] = json!([SAID]);
    let accepted = &sort(&[&wanted], &mut evidence)[0];
    assert_eq!((accepted.bundles, accepted.attestations), (4, 2));
    assert_eq!(distinct(&accepted.known_by.bundles), 2);
    assert_eq!(distinct(&accepted.known_by.attestations), 1);
}
