//! Signatures in cosign's format before bundles.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use orlop_testkit::ImageSignature;
use orlop_testkit::sigstore::{Key, Person, TransparencyLog};
use serde_json::{Value, json};

use super::scene::{DIGEST, EMAIL, Scene, USED, demand, public};
use crate::{Beside, By, Demand, Detached, Refusal, Signer};

const NAME: &str = "a.example/app";

fn verify(signature: &ImageSignature, demand: &Demand<'_>) -> Result<By, Refusal> {
    let bytes = BASE64_STANDARD.decode(&signature.signature).unwrap();
    let detached = Detached {
        message: signature.payload.as_bytes(),
        signature: &bytes,
        beside: Beside {
            certificate: signature.certificate.as_deref(),
            chain: signature.chain.as_deref(),
            log: signature.log.as_deref(),
            is_stamped: false,
        },
    };
    detached.verify(demand)
}

/// Returns a signer with the complete certificate chain.
fn person(scene: &Scene) -> Person {
    scene.authority.certify(&scene.wish())
}

#[test]
fn a_signature_with_certificate_chain_and_log_holds() {
    let scene = Scene::new();
    let signed = person(&scene).sign_image(DIGEST, NAME, Some((&scene.log, USED)));
    assert_eq!(
        verify(&signed, &scene.demand()),
        Ok(By::Identity(EMAIL.to_owned()))
    );
    let mut alone = signed;
    alone.chain = None;
    let refused = verify(&alone, &scene.demand()).unwrap_err();
    assert!(matches!(refused, Refusal::Chain(_)), "{refused}");
    let scene = scene.knowing_the_authority();
    verify(&alone, &scene.demand()).unwrap();
}

#[test]
fn a_signature_by_a_key_is_looked_for_in_the_log_where_that_is_asked() {
    let (log, other) = (TransparencyLog::new("x"), TransparencyLog::new("x"));
    let person = Person::with(Key::new());
    let (keys, logs) = ([public(&person.key)], [public(&log.key)]);
    let demand = |logs| demand(Signer::Keys(&keys), logs);
    let good = person.sign_image(DIGEST, NAME, Some((&log, USED)));
    assert_eq!(verify(&good, &demand(Some(&logs))), Ok(By::Key(0)));
    let mut alone = good.clone();
    alone.log = None;
    verify(&alone, &demand(None)).unwrap();
    let refused = verify(&alone, &demand(Some(&logs))).unwrap_err();
    assert!(matches!(refused, Refusal::NotLogged(_)), "{refused}");
    let elsewhere = person.sign_image(DIGEST, NAME, Some((&other, USED)));
    let refused = verify(&elsewhere, &demand(Some(&logs))).unwrap_err();
    assert!(matches!(refused, Refusal::OtherLog(_)), "{refused}");
    // Another key signs the same bytes, and its signature is in the log.
    let stranger = Person::with(Key::new());
    let mut borrowed = good;
    borrowed.log = stranger.sign_image(DIGEST, NAME, Some((&log, USED))).log;
    let refused = verify(&borrowed, &demand(Some(&logs))).unwrap_err();
    assert_eq!(refused, Refusal::OtherEntry("signature"));
}

/// Changes cosign's annotation with the log entry.
fn with_log(signature: &ImageSignature, change: impl FnOnce(&mut Value)) -> ImageSignature {
    let mut changed = signature.clone();
    let mut log: Value = serde_json::from_str(changed.log.as_ref().unwrap()).unwrap();
    change(&mut log);
    changed.log = Some(log.to_string());
    changed
}

#[test]
fn nothing_of_it_may_be_changed() {
    let scene = Scene::new();
    let person = person(&scene);
    let good = person.sign_image(DIGEST, NAME, Some((&scene.log, USED)));
    let other = person.sign_image(DIGEST, "a.example/other", Some((&scene.log, USED)));
    let stranger = scene.authority.certify(&scene.wish());
    let swap = |change: fn(&mut ImageSignature, ImageSignature)| {
        let mut changed = good.clone();
        change(&mut changed, other.clone());
        changed
    };
    for (changed, said) in [
        (
            swap(|one, other| one.payload = other.payload),
            "not signed with the key of its certificate",
        ),
        (
            swap(|one, other| one.signature = other.signature),
            "not signed with the key of its certificate",
        ),
        (
            swap(|one, other| one.log = other.log),
            "the log entry is for another artifact",
        ),
        (
            swap(|one, _| one.certificate = None),
            "it has no certificate",
        ),
        (
            swap(|one, _| one.certificate = Some("x".into())),
            "its certificate is malformed: it has no",
        ),
        (
            swap(|one, _| one.chain = Some("x".into())),
            "the chain of its certificate is malformed",
        ),
        (
            swap(|one, _| one.log = None),
            "it is not in a transparency log",
        ),
        (
            swap(|one, _| one.log = Some("{}".into())),
            "the log entry is malformed",
        ),
        (
            swap(|one, _| one.certificate = one.chain.clone()),
            "its certificate is malformed: it has more than 1",
        ),
        (
            with_log(&good, |log| {
                log["Payload"]["integratedTime"] = json!(USED + 1);
            }),
            "the timestamp of its log entry is wrong",
        ),
        (
            with_log(&good, |log| log["Payload"]["integratedTime"] = json!(-1)),
            "a number is negative",
        ),
        (
            with_log(&good, |log| log["Payload"]["logIndex"] = json!(1_u64 << 60)),
            "a number is too large",
        ),
        (
            with_log(&good, |log| log["Payload"]["logID"] = json!("00")),
            "its log entry is from another log, 00",
        ),
        (
            with_log(&good, |log| log["x"] = json!(1)),
            "unknown field `x`",
        ),
        (
            {
                let mut changed = good.clone();
                changed.certificate = Some(stranger.certificate_pem());
                changed
            },
            "not signed with the key of its certificate",
        ),
    ] {
        let refused = verify(&changed, &scene.demand()).unwrap_err().to_string();
        assert!(refused.contains(said), "{said}: {refused}");
    }
}
