//! Bundles: valid ones, and the refusal of any change.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use orlop_testkit::sigstore::{Key, Person, TransparencyLog, statement};
use serde_json::{Value, json};

use super::scene::{DIGEST, EMAIL, Scene, USED, demand, public, verify};
use crate::{Bundle, By, Content, Demand, Refusal, Signer, Statement};

/// Returns a field of a bundle's only log entry.
fn entry<'a>(bundle: &'a mut Value, field: &str) -> &'a mut Value {
    &mut bundle["verificationMaterial"]["tlogEntries"][0][field]
}

/// Changes a byte at the end of a base64 value.
fn change(text: &mut Value) {
    let mut bytes = BASE64_STANDARD.decode(text.as_str().unwrap()).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    *text = BASE64_STANDARD.encode(bytes).into();
}

#[test]
fn a_statement_by_somebody_with_a_certificate_holds_and_tells_of_what_it_is() {
    let scene = Scene::new().knowing_the_authority();
    let bundle = scene.bundle(&scene.person(&scene.wish()));
    assert_eq!(scene.verify(&bundle), Ok(By::Identity(EMAIL.to_owned())));
    let read = Bundle::parse(bundle.to_string().as_bytes()).unwrap();
    let Content::Envelope(envelope) = &read.content else {
        panic!("{read:?}");
    };
    let said = Statement::parse(envelope.statement().unwrap()).unwrap();
    assert_eq!(said.predicate_type, Statement::COSIGN_SIGN);
    assert_eq!(said.subjects[0].digests, [DIGEST]);
    assert_eq!(said.subjects[0].name, None);
}

#[test]
fn a_statement_by_a_key_holds_in_a_log_or_without_one() {
    let (log, other) = (TransparencyLog::new("log.example"), Key::new());
    let person = Person::with(Key::new());
    let keys = [public(&other), public(&person.key)];
    let logs = [public(&log.key)];
    let demand = |logs| demand(Signer::Keys(&keys), logs);
    let said = statement(DIGEST, Some("a.example/app"), Statement::COSIGN_SIGN);
    let noted = person.bundle(&said, Some((&log, USED)));
    let alone = person.bundle(&said, None);
    assert_eq!(verify(&noted, &demand(Some(&logs))), Ok(By::Key(1)));
    assert_eq!(verify(&noted, &demand(None)), Ok(By::Key(1)));
    assert_eq!(verify(&alone, &demand(None)), Ok(By::Key(1)));
    let refused = verify(&alone, &demand(Some(&logs))).unwrap_err();
    assert!(matches!(refused, Refusal::NotLogged(_)), "{refused}");
    let only = Demand {
        stampers: None,
        signer: Signer::Keys(&keys[..1]),
        ..demand(None)
    };
    assert_eq!(verify(&alone, &only), Err(Refusal::OtherKey));
    // If the time does not matter, either the proof or the promise is sufficient.
    for (part, field) in [("inclusionPromise", "proof"), ("inclusionProof", "promise")] {
        let mut less = noted.clone();
        *entry(&mut less, part) = Value::Null;
        assert_eq!(
            verify(&less, &demand(Some(&logs))),
            Ok(By::Key(1)),
            "{field}"
        );
    }
}

#[test]
fn a_message_that_is_elsewhere_is_verified_where_it_is_given() {
    let scene = Scene::new().knowing_the_authority();
    let person = scene.person(&scene.wish());
    let bundle = person.bundle_of_message(b"message", Some((&scene.log, USED)));
    let read = Bundle::parse(bundle.to_string().as_bytes()).unwrap();
    let demand = scene.demand();
    assert!(read.verify(&demand, Some(b"message")).is_ok());
    let other = read.verify(&demand, Some(b"massage"));
    assert_eq!(other, Err(Refusal::NotByCertificate));
    let missing = read.verify(&demand, None);
    assert!(matches!(missing, Err(Refusal::Unsupported(_))));
}

#[test]
fn a_log_with_an_ed25519_key_is_known_by_its_name_too() {
    let log = TransparencyLog::with("log.example/2", Key::ed25519());
    let person = Person::with(Key::new());
    let (keys, logs) = ([public(&person.key)], [public(&log.key)]);
    let demand = demand(Signer::Keys(&keys), Some(&logs));
    let said = statement(DIGEST, None, Statement::COSIGN_SIGN);
    let mut bundle = person.bundle(&said, Some((&log, USED)));
    assert_eq!(verify(&bundle, &demand), Ok(By::Key(0)));
    // The form of key IDs of note signers.
    let mut id = b"log.example/2\n\x01".to_vec();
    id.extend_from_slice(log.key.raw());
    let id = crate::hash::sha256(&[&id]);
    *entry(&mut bundle, "inclusionPromise") = Value::Null;
    *entry(&mut bundle, "logId") = json!({ "keyId": BASE64_STANDARD.encode(id) });
    let note = &mut entry(&mut bundle, "inclusionProof")["checkpoint"]["envelope"];
    let (text, signed) = note.as_str().unwrap().split_once("\n\n").unwrap();
    let (name, signature) = signed.trim_end().rsplit_once(' ').unwrap();
    let mut signature = BASE64_STANDARD.decode(signature).unwrap();
    signature[..4].copy_from_slice(&id[..4]);
    let signature = BASE64_STANDARD.encode(signature);
    *note = format!("{text}\n\n{name} {signature}\n").into();
    assert_eq!(verify(&bundle, &demand), Ok(By::Key(0)));
    let note = &mut entry(&mut bundle, "inclusionProof")["checkpoint"]["envelope"];
    *note = note
        .as_str()
        .unwrap()
        .replace("example/2", "example/3")
        .into();
    assert!(matches!(
        verify(&bundle, &demand),
        Err(Refusal::OtherLog(_))
    ));
}

/// A change to a valid bundle, and the expected error.
type Case = (&'static str, fn(&Scene, &mut Value), &'static str);

const CASES: &[Case] = &[
    (
        "other statement",
        |_, bundle| {
            let other = statement(
                &DIGEST.replace("ba78", "ba79"),
                None,
                Statement::COSIGN_SIGN,
            );
            bundle["dsseEnvelope"]["payload"] = BASE64_STANDARD.encode(other.to_string()).into();
        },
        "it is not signed with the key of its certificate",
    ),
    (
        "other kind of payload",
        |_, bundle| bundle["dsseEnvelope"]["payloadType"] = "text/plain".into(),
        "it is not signed with the key of its certificate",
    ),
    (
        "changed signature",
        |_, bundle| change(&mut bundle["dsseEnvelope"]["signatures"][0]["sig"]),
        "it is not signed with the key of its certificate",
    ),
    (
        "two signatures",
        |_, bundle| {
            let one = bundle["dsseEnvelope"]["signatures"][0].clone();
            bundle["dsseEnvelope"]["signatures"] = json!([one, one]);
        },
        "the envelope is malformed: it does not have exactly one signature",
    ),
    (
        "no signature",
        |_, bundle| bundle["dsseEnvelope"]["signatures"] = json!([]),
        "the envelope is malformed: it does not have exactly one signature",
    ),
    (
        "no entry",
        |_, bundle| bundle["verificationMaterial"]["tlogEntries"] = json!([]),
        "it is not in a transparency log, which the policy requires",
    ),
    (
        "only a timestamp by an authority",
        |_, bundle| {
            bundle["verificationMaterial"]["tlogEntries"] = json!([]);
            bundle["verificationMaterial"]["timestampVerificationData"] =
                json!({ "rfc3161Timestamps": [{ "signedTimestamp": "AA==" }] });
        },
        "a timestamp by an authority (RFC 3161) does not replace it",
    ),
    (
        "entry of another log",
        |scene, bundle| {
            let other = TransparencyLog::new("log.example");
            let statement = statement(DIGEST, None, Statement::COSIGN_SIGN);
            let person = scene.person(&scene.wish());
            *bundle = person.bundle(&statement, Some((&other, USED)));
        },
        "its log entry is from another log, ",
    ),
    (
        "entry that pretends to be of the log",
        |scene, bundle| {
            let id = entry(bundle, "logId").clone();
            let other = TransparencyLog::new("log.example");
            let statement = statement(DIGEST, None, Statement::COSIGN_SIGN);
            let person = scene.person(&scene.wish());
            *bundle = person.bundle(&statement, Some((&other, USED)));
            *entry(bundle, "logId") = id;
        },
        "the timestamp of its log entry is wrong",
    ),
    (
        "changed timestamp",
        |_, bundle| change(&mut entry(bundle, "inclusionPromise")["signedEntryTimestamp"]),
        "the timestamp of its log entry is wrong",
    ),
    (
        "changed moment",
        |_, bundle| *entry(bundle, "integratedTime") = (USED + 1).to_string().into(),
        "the timestamp of its log entry is wrong",
    ),
    (
        "changed number",
        |_, bundle| *entry(bundle, "logIndex") = "1006".into(),
        "the timestamp of its log entry is wrong",
    ),
    (
        "no timestamp of the log",
        |_, bundle| *entry(bundle, "inclusionPromise") = Value::Null,
        "nothing proves that it was signed while its certificate was valid",
    ),
    (
        "neither timestamp nor proof",
        |_, bundle| {
            *entry(bundle, "inclusionPromise") = Value::Null;
            *entry(bundle, "inclusionProof") = Value::Null;
        },
        "its log entry has neither",
    ),
    (
        "changed hash of the proof",
        |_, bundle| change(&mut entry(bundle, "inclusionProof")["hashes"][1]),
        "its inclusion proof is wrong: its root hash is wrong",
    ),
    (
        "changed place",
        |_, bundle| entry(bundle, "inclusionProof")["logIndex"] = "4".into(),
        "its inclusion proof is wrong: its root hash is wrong",
    ),
    (
        "place outside of the tree",
        |_, bundle| entry(bundle, "inclusionProof")["logIndex"] = "11".into(),
        "its index is outside",
    ),
    (
        "changed size",
        |_, bundle| entry(bundle, "inclusionProof")["treeSize"] = "12".into(),
        "its checkpoint is for another tree",
    ),
    (
        "changed tree",
        |_, bundle| change(&mut entry(bundle, "inclusionProof")["rootHash"]),
        "its root hash is wrong",
    ),
    (
        "proof that is cut short",
        |_, bundle| {
            let proof = entry(bundle, "inclusionProof");
            proof["hashes"].as_array_mut().unwrap().pop();
        },
        "its index is outside",
    ),
    (
        "checkpoint by nobody",
        |_, bundle| {
            let note = &mut entry(bundle, "inclusionProof")["checkpoint"]["envelope"];
            let (text, _) = note.as_str().unwrap().rsplit_once(' ').unwrap();
            *note = format!(
                "{text} AAAAAA==
"
            )
            .into();
        },
        "its checkpoint is not signed with the key of the log",
    ),
    (
        "checkpoint that names another key",
        |_, bundle| {
            let note = &mut entry(bundle, "inclusionProof")["checkpoint"]["envelope"];
            let (text, signed) = note.as_str().unwrap().trim_end().rsplit_once(' ').unwrap();
            let mut signed = BASE64_STANDARD.decode(signed).unwrap();
            signed[0] ^= 1;
            *note = format!("{text} {}\n", BASE64_STANDARD.encode(signed)).into();
        },
        "its checkpoint is not signed with the key of the log",
    ),
    (
        "checkpoint of another tree",
        |_, bundle| {
            let note = &mut entry(bundle, "inclusionProof")["checkpoint"]["envelope"];
            *note = note.as_str().unwrap().replace("\n11\n", "\n12\n").into();
        },
        "its checkpoint is for another tree",
    ),
    (
        "checkpoint with more text",
        |_, bundle| {
            let note = &mut entry(bundle, "inclusionProof")["checkpoint"]["envelope"];
            *note = note
                .as_str()
                .unwrap()
                .replacen("\n\n", "\nmore\n\n", 1)
                .into();
        },
        "its checkpoint is not signed with the key of the log",
    ),
    (
        "checkpoint by another",
        |scene, bundle| {
            let (mut root, other) = ([0; 32], TransparencyLog::new("log.example"));
            let written = entry(bundle, "inclusionProof")["rootHash"].clone();
            root.copy_from_slice(&BASE64_STANDARD.decode(written.as_str().unwrap()).unwrap());
            let forged = other.checkpoint(11, &root);
            let own = scene.log.checkpoint(11, &root);
            // The signature names the log as its signer.
            let hint = |note: &str| {
                let signature = note.trim_end().rsplit(' ').next().unwrap().to_owned();
                BASE64_STANDARD.decode(signature).unwrap()
            };
            let mut signature = hint(&forged);
            signature[..4].copy_from_slice(&hint(&own)[..4]);
            let end = forged.rfind(' ').unwrap();
            let signature = BASE64_STANDARD.encode(signature);
            let note = format!("{} {signature}\n", &forged[..end]);
            entry(bundle, "inclusionProof")["checkpoint"]["envelope"] = note.into();
        },
        "its checkpoint is not signed with the key of the log",
    ),
    (
        "no checkpoint",
        |_, bundle| entry(bundle, "inclusionProof")["checkpoint"]["envelope"] = "".into(),
        "its checkpoint is malformed",
    ),
    (
        "entry of another statement",
        |scene, bundle| {
            let person = scene.person(&scene.wish());
            let other = statement(DIGEST, Some("other"), Statement::COSIGN_SIGN);
            let other = person.bundle(&other, Some((&scene.log, USED)));
            *bundle = scene.bundle(&person);
            bundle["verificationMaterial"]["tlogEntries"] =
                other["verificationMaterial"]["tlogEntries"].clone();
        },
        "the log entry is for another artifact",
    ),
    (
        "entry of another signature",
        |scene, bundle| {
            let person = scene.person(&scene.wish());
            *bundle = scene.bundle(&person);
            // Each signature differs.
            bundle["verificationMaterial"]["tlogEntries"] =
                scene.bundle(&person)["verificationMaterial"]["tlogEntries"].clone();
        },
        "the log entry is for another signature",
    ),
    (
        "entry of a message",
        |scene, bundle| {
            let person = scene.person(&scene.wish());
            *bundle = scene.bundle(&person);
            let other = person.bundle_of_message(b"x", Some((&scene.log, USED)));
            bundle["verificationMaterial"]["tlogEntries"] =
                other["verificationMaterial"]["tlogEntries"].clone();
        },
        "the log entry is for another artifact",
    ),
    (
        "changed body",
        |_, bundle| {
            let body = entry(bundle, "canonicalizedBody");
            let text = BASE64_STANDARD.decode(body.as_str().unwrap()).unwrap();
            let text = String::from_utf8(text).unwrap() + " ";
            *body = BASE64_STANDARD.encode(text).into();
        },
        "the timestamp of its log entry is wrong",
    ),
    (
        "key in place of a certificate",
        |_, bundle| {
            let material = bundle["verificationMaterial"].as_object_mut().unwrap();
            material.remove("certificate");
            material.insert("publicKey".to_owned(), json!({ "hint": "x" }));
        },
        "it has no certificate",
    ),
    (
        "key and certificate",
        |_, bundle| bundle["verificationMaterial"]["publicKey"] = json!({}),
        "it does not have exactly one type of key",
    ),
    (
        "two things that are signed",
        |_, bundle| bundle["messageSignature"] = json!({ "signature": "" }),
        "it needs either dsseEnvelope or messageSignature",
    ),
    (
        "other certificate",
        |scene, bundle| {
            let other = scene.bundle(&scene.person(&scene.wish()));
            bundle["verificationMaterial"]["certificate"] =
                other["verificationMaterial"]["certificate"].clone();
        },
        "it is not signed with the key of its certificate",
    ),
    (
        "changed certificate",
        |_, bundle| change(&mut bundle["verificationMaterial"]["certificate"]["rawBytes"]),
        "the log entry is for another certificate",
    ),
    (
        "other version",
        |_, bundle| bundle["mediaType"] = "application/vnd.dev.sigstore.bundle.v0.4+json".into(),
        "is not supported",
    ),
];

#[test]
fn nothing_of_a_bundle_may_be_changed() {
    let scene = Scene::new().knowing_the_authority();
    let person = scene.person(&scene.wish());
    let good = scene.bundle(&person);
    assert!(scene.verify(&good).is_ok());
    for (what, change, said) in CASES {
        let mut bundle = good.clone();
        change(&scene, &mut bundle);
        let refused = scene.verify(&bundle).expect_err(what).to_string();
        assert!(refused.contains(said), "{what}: {refused}");
    }
}

#[test]
fn a_changed_certificate_that_is_in_the_log_is_refused_for_what_is_wrong_with_it() {
    let scene = Scene::new().knowing_the_authority();
    let mut person = scene.person(&scene.wish());
    *person.certificates[0].last_mut().unwrap() ^= 1;
    let refused = scene.verify(&scene.bundle(&person)).unwrap_err();
    assert!(matches!(refused, Refusal::Chain(_)), "{refused}");
}

#[test]
fn a_bundle_that_is_cut_short_is_no_bundle() {
    let scene = Scene::new().knowing_the_authority();
    let text = scene.bundle(&scene.person(&scene.wish())).to_string();
    for end in (0..text.len()).step_by(7) {
        let refused = Bundle::parse(&text.as_bytes()[..end]).unwrap_err();
        assert!(
            matches!(refused, Refusal::Malformed { .. }),
            "{end}: {refused}"
        );
    }
    let deep = text.replacen('{', &format!("{{\"x\":{}", "[".repeat(100_000)), 1);
    Bundle::parse(deep.as_bytes()).unwrap_err();
    let twice = text.replacen('{', "{\"mediaType\":\"x\",", 1);
    Bundle::parse(twice.as_bytes()).unwrap_err();
    let mut many = scene.bundle(&scene.person(&scene.wish()));
    let entries = &mut many["verificationMaterial"]["tlogEntries"];
    *entries = json!(vec![entries[0].clone(); 9]);
    Bundle::parse(many.to_string().as_bytes()).unwrap_err();
}
