//! Tests of `sigstoreSigned` with certificates, logs and bundles.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use orlop_testkit::Scratch;
use orlop_testkit::sigstore::{CodeAuthority, Key, Person, TransparencyLog, Wish, statement};
use serde_json::{Value, json};

use crate::evidence::Evidence;
use crate::policy::Policy;
use crate::policy::tests::{judge, kept};
use crate::{Digest, Reference};

mod attestations;
mod copies;
mod mistakes;
mod stamps;

const ISSUER: &str = "https://issuer.example";
const EMAIL: &str = "who@people.example";
const SIGN: &str = "https://sigstore.dev/cosign/sign/v1";
const BEGIN: u64 = 1_700_000_000;
const USED: u64 = BEGIN + 60;

/// An image, a signer's authority, and files with trust roots.
struct Scene {
    scratch: Scratch,
    image: Digest,
    authority: CodeAuthority,
    log: TransparencyLog,
    certificate_log: Key,
}

impl Scene {
    fn new() -> Self {
        let scene = Self {
            scratch: Scratch::new(),
            image: Digest::of(b"manifest"),
            authority: CodeAuthority::new("root"),
            log: TransparencyLog::new("log.example"),
            certificate_log: Key::new(),
        };
        scene.write("ca.pem", &scene.authority.pem());
        scene.write("rekor.pub", &scene.log.key.pem());
        scene.write("ct.pub", &scene.certificate_log.pem());
        scene
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.scratch.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path(name)
    }

    fn wish(&self) -> Wish<'_> {
        Wish {
            emails: vec![EMAIL],
            issuers: [Some(ISSUER); 2],
            valid: (BEGIN, BEGIN + 600),
            log: Some(&self.certificate_log),
            ..Wish::default()
        }
    }

    fn person(&self) -> Person {
        self.authority.certify(&self.wish())
    }

    /// A requirement for a signer who has logged in.
    fn fulcio(&self, identity: &str) -> Value {
        json!({
            "type": "sigstoreSigned",
            "fulcio": {
                "caPath": self.path("ca.pem"),
                "oidcIssuer": ISSUER,
                "subjectEmail": EMAIL,
                "ctLogPublicKeyPath": self.path("ct.pub"),
            },
            "rekorPublicKeyPath": self.path("rekor.pub"),
            "signedIdentity": { "type": identity },
        })
    }

    fn statement(&self, name: Option<&str>, kind: &str) -> Value {
        statement(&self.image.to_string(), name, kind)
    }

    /// A bundle by this person, with an entry in the log.
    fn bundle(&self, person: &Person, statement: &Value) -> String {
        person
            .bundle(statement, Some((&self.log, USED)))
            .to_string()
    }

    fn judge(&self, requirement: &Value, evidence: Evidence) -> Result<String, String> {
        let evidence = Evidence {
            manifests: vec![self.image],
            ..evidence
        };
        judge(requirement, "a.example/app:1", &evidence)
    }

    fn judge_bundles(&self, requirement: &Value, bundles: Vec<String>) -> Result<String, String> {
        let evidence = Evidence {
            bundles,
            ..Evidence::default()
        };
        self.judge(requirement, evidence)
    }
}

#[track_caller]
fn refused(outcome: Result<String, String>, said: &str) {
    let reason = outcome.expect_err("it must be refused");
    assert!(reason.contains(said), "{reason}");
}

fn without(value: &Value, field: &str) -> Value {
    let mut value = value.clone();
    value.as_object_mut().unwrap().remove(field);
    value
}

#[test]
fn who_has_logged_in_may_sign_in_the_old_way_and_in_the_new_one() {
    let scene = Scene::new();
    let (person, digest) = (scene.person(), scene.image.to_string());
    let noted = Some((&scene.log, USED));
    let old = |name| Evidence {
        signatures: vec![kept(&person.sign_image(&digest, name, noted))],
        ..Evidence::default()
    };
    let reason = scene
        .judge(&scene.fulcio("matchExact"), old("a.example/app:1"))
        .unwrap();
    assert_eq!(
        reason,
        format!("signed by {EMAIL} as \"a.example/app:1\" with digest {digest}")
    );
    refused(
        scene.judge(&scene.fulcio("matchExact"), old("a.example/app")),
        "without a tag, like the signatures of cosign",
    );
    let bundle = scene.bundle(&person, &scene.statement(None, SIGN));
    let reason = scene
        .judge_bundles(&scene.fulcio("matchDigest"), vec![bundle])
        .unwrap();
    assert_eq!(
        reason,
        format!("signed by {EMAIL} without a name with digest {digest}")
    );
}

#[test]
fn a_bundle_for_no_name_is_accepted_only_where_the_policy_says_that_a_digest_is_enough() {
    let scene = Scene::new();
    let person = scene.person();
    let nameless = scene.bundle(&person, &scene.statement(None, SIGN));
    let named = |name| scene.bundle(&person, &scene.statement(Some(name), SIGN));
    let mut exact = scene.fulcio("exactRepository");
    exact["signedIdentity"]["dockerRepository"] = "b.example/up".into();
    let mut reference = scene.fulcio("exactReference");
    reference["signedIdentity"]["dockerReference"] = "b.example/up:1".into();
    let mut remap = scene.fulcio("remapIdentity");
    remap["signedIdentity"]["prefix"] = "a.example".into();
    remap["signedIdentity"]["signedPrefix"] = "b.example".into();
    let of = |kind| scene.fulcio(kind);
    for (requirement, accepted) in [
        (
            of("matchDigest"),
            &["a.example/app", "b.example/other", "no name: at all"][..],
        ),
        (
            of("matchRepository"),
            &["a.example/app", "a.example/app:1", "a.example/app:2"],
        ),
        (of("matchExact"), &["a.example/app:1"]),
        (of("matchRepoDigestOrExact"), &["a.example/app:1"]),
        (exact, &["b.example/up", "b.example/up:1", "b.example/up:7"]),
        (reference, &["b.example/up:1"]),
        (remap, &["b.example/app:1"]),
    ] {
        let kind = requirement["signedIdentity"]["type"].clone();
        let outcome = scene.judge_bundles(&requirement, vec![nameless.clone()]);
        if kind == "matchDigest" {
            outcome.unwrap();
        } else {
            refused(outcome, "it contains only a digest and no repository");
        }
        for name in [
            "a.example/app",
            "a.example/app:1",
            "a.example/app:2",
            "b.example/app:1",
            "b.example/up",
            "b.example/up:1",
            "b.example/up:7",
            "b.example/other",
            "no name: at all",
        ] {
            let outcome = scene.judge_bundles(&requirement, vec![named(name)]);
            let wanted = accepted.contains(&name) || kind == "matchDigest";
            assert_eq!(outcome.is_ok(), wanted, "{kind} {name}: {outcome:?}");
        }
    }
}

#[test]
fn a_bundle_counts_for_its_image_and_its_signer_only() {
    let scene = Scene::new();
    let (person, requirement) = (scene.person(), scene.fulcio("matchDigest"));
    let said = scene.statement(None, SIGN);
    let other = statement(&Digest::of(b"other").to_string(), None, SIGN);
    let good = scene.bundle(&person, &said);
    let by = |wish: Wish<'_>| scene.bundle(&scene.authority.certify(&wish), &said);
    let strange = CodeAuthority::new("root").certify(&scene.wish());
    let elsewhere = TransparencyLog::new("log.example");
    for (bundle, complaint) in [
        (
            scene.bundle(&person, &other),
            "it is for another image, sha256:",
        ),
        (
            by(Wish {
                emails: vec!["x@people.example"],
                ..scene.wish()
            }),
            "its certificate is for x@people.example, not for who@people.example",
        ),
        (
            by(Wish {
                issuers: [Some("https://x.example"); 2],
                ..scene.wish()
            }),
            "its certificate was issued for a login at https://x.example, not at https://issuer.example",
        ),
        (
            by(Wish {
                valid: (BEGIN, USED - 1),
                ..scene.wish()
            }),
            "and the log's timestamp of the signature is 2023-11-14T22:14:20Z",
        ),
        (
            by(Wish {
                log: None,
                ..scene.wish()
            }),
            "it has no signed certificate timestamp",
        ),
        (
            by(Wish {
                log: Some(&scene.log.key),
                ..scene.wish()
            }),
            "its signed certificate timestamps are from other logs",
        ),
        (
            scene.bundle(&strange, &said),
            "its certificate is not accepted",
        ),
        (
            person.bundle(&said, Some((&elsewhere, USED))).to_string(),
            "its log entry is from another log",
        ),
        (
            person.bundle(&said, None).to_string(),
            "it is not in a transparency log",
        ),
        (
            scene.bundle(&Person::with(Key::new()), &said),
            "it has no certificate",
        ),
        (
            good[..good.len() - 1].to_owned(),
            "the bundle is malformed: EOF",
        ),
        (
            person.bundle_of_message(b"x", None).to_string(),
            "it signs a message instead of an in-toto statement",
        ),
    ] {
        let reason = scene.judge_bundles(&requirement, vec![bundle.clone()]);
        refused(reason, complaint);
        // One valid bundle is sufficient.
        scene
            .judge_bundles(&requirement, vec![bundle, good.clone()])
            .unwrap();
    }
    let missing = scene.judge_bundles(&requirement, vec![]);
    refused(missing, ".sig, and no bundle is attached to it");
    let elsewise = scene.bundle(
        &person,
        &scene.statement(None, "https://slsa.dev/provenance/v1"),
    );
    refused(
        scene.judge_bundles(&requirement, vec![elsewise]),
        "the bundle that is attached to it is not a signature",
    );
}

#[test]
fn what_must_have_been_said_is_asked_for_by_its_type() {
    let scene = Scene::new();
    let person = scene.person();
    let provenance = "https://slsa.dev/provenance/v1";
    let mut requirement = scene.fulcio("matchRepository");
    requirement["predicateTypes"] = json!(["https://slsa.dev/provenance/v0.2", provenance]);
    let said = |kind| scene.bundle(&person, &scene.statement(Some("a.example/app"), kind));
    let reason = scene.judge_bundles(&requirement, vec![said(SIGN), said(provenance)]);
    assert_eq!(
        reason.unwrap(),
        format!(
            "{provenance} by {EMAIL} as \"a.example/app\" with digest {}",
            scene.image
        )
    );
    let missing = "it must have an attestation of the type https://slsa.dev/provenance/v0.2 or https://slsa.dev/provenance/v1, but has no such attestation";
    refused(scene.judge_bundles(&requirement, vec![said(SIGN)]), missing);
    let evidence = Evidence {
        signatures: vec![kept(&person.sign_image(
            &scene.image.to_string(),
            "a.example/app",
            Some((&scene.log, USED)),
        ))],
        ..Evidence::default()
    };
    refused(scene.judge(&requirement, evidence), missing);
    let stranger = CodeAuthority::new("x").certify(&scene.wish());
    let statement = scene.statement(Some("a.example/app"), provenance);
    refused(
        scene.judge_bundles(&requirement, vec![scene.bundle(&stranger, &statement)]),
        "its attestation is not accepted: its certificate is not accepted",
    );
}

#[test]
fn keys_are_looked_for_in_a_log_where_that_is_asked() {
    let scene = Scene::new();
    let person = Person::with(Key::new());
    let key = scene.write("key.pub", &person.key.pem());
    let said = scene.statement(Some("a.example/app:1"), SIGN);
    let requirement = json!({ "type": "sigstoreSigned", "keyPath": key });
    let mut logged = requirement.clone();
    logged["rekorPublicKeyDatas"] = json!([
        BASE64_STANDARD.encode(Key::new().pem()),
        BASE64_STANDARD.encode(scene.log.key.pem()),
    ]);
    let noted = scene.bundle(&person, &said);
    let alone = person.bundle(&said, None).to_string();
    let reason = scene.judge_bundles(&logged, vec![noted.clone()]).unwrap();
    assert!(
        reason.starts_with(&format!("signed by {} as", key.display())),
        "{reason}"
    );
    scene.judge_bundles(&requirement, vec![noted]).unwrap();
    scene
        .judge_bundles(&requirement, vec![alone.clone()])
        .unwrap();
    refused(
        scene.judge_bundles(&logged, vec![alone]),
        "its signature is not accepted: it is not in a transparency log",
    );
    let other = Person::with(Key::new()).bundle(&said, None).to_string();
    refused(
        scene.judge_bundles(&requirement, vec![other]),
        "it is not signed with ",
    );
}

#[test]
fn certificates_of_one_s_own_must_be_valid_now() {
    let scene = Scene::new();
    let between = scene.authority.below("between");
    scene.write("between.pem", &between.pem());
    let forever = Wish {
        emails: vec![EMAIL],
        hosts: vec!["build.people.example"],
        ..Wish::default()
    };
    let sign = |wish: &Wish<'_>| {
        let mut person = between.certify(wish);
        person.certificates.truncate(1);
        let said = scene.statement(None, SIGN);
        vec![person.bundle(&said, None).to_string()]
    };
    let requirement = |pki: Value| json!({ "type": "sigstoreSigned", "pki": pki, "signedIdentity": { "type": "matchDigest" } });
    let whole = json!({
        "caRootsPath": scene.path("ca.pem"),
        "caIntermediatesPath": scene.path("between.pem"),
        "subjectEmail": EMAIL,
        "subjectHostname": "build.people.example",
    });
    let inline = json!({
        "caRootsData": BASE64_STANDARD.encode(scene.authority.pem()),
        "caIntermediatesData": BASE64_STANDARD.encode(between.pem()),
        "subjectHostname": "build.people.example",
    });
    for pki in [&whole, &inline, &without(&whole, "subjectHostname")] {
        scene
            .judge_bundles(&requirement(pki.clone()), sign(&forever))
            .unwrap();
    }
    let all = requirement(whole.clone());
    let past = Wish {
        valid: (BEGIN, BEGIN + 600),
        ..forever.clone()
    };
    refused(scene.judge_bundles(&all, sign(&past)), ", and now is 20");
    let other = Wish {
        hosts: vec!["other.people.example"],
        ..forever.clone()
    };
    refused(
        scene.judge_bundles(&all, sign(&other)),
        "not for build.people.example",
    );
    let alone = requirement(without(&whole, "caIntermediatesPath"));
    refused(
        scene.judge_bundles(&alone, sign(&forever)),
        "it is not issued by one of the authorities that the policy names",
    );
    // The intermediate certificate may be part of the signature, as cosign stores it.
    let person = between.certify(&forever);
    let evidence = Evidence {
        signatures: vec![kept(&person.sign_image(
            &scene.image.to_string(),
            "x/y",
            None,
        ))],
        ..Evidence::default()
    };
    scene.judge(&alone, evidence).unwrap();
}

#[test]
fn judging_takes_little_time() {
    let scene = Scene::new();
    let bundles = vec![scene.bundle(&scene.person(), &scene.statement(None, SIGN)); 4];
    let requirement = scene.fulcio("matchDigest");
    let start = Instant::now();
    let rounds = 20;
    for _ in 0..rounds {
        scene.judge_bundles(&requirement, bundles.clone()).unwrap();
    }
    let each = start.elapsed() / rounds;
    eprintln!("{each:?} for each");
    // A generous limit for an unoptimized build that runs beside other tests.
    assert!(each < Duration::from_millis(50), "{each:?}");
}
