//! Attestations at their own tags, where cosign put them up to its second version.

use orlop_image_store::{Error, Reference};
use orlop_testkit::sigstore::{Key, Person, statement};
use orlop_testkit::{Fault, FaultProxy, ImageAttestation, Rule};
use serde_json::{Value, json};

use crate::signatures::{Scene, accept, pull_for};
use crate::support::assert_refused;

const SAID: &str = "https://slsa.dev/provenance/v1";

fn wanted(scene: &Scene, person: &Person, repository: &str) -> Value {
    let key = scene.policies.join("own.pub");
    std::fs::write(&key, person.key.pem()).unwrap();
    json!([{
        "type": "sigstoreSigned",
        "keyPath": key,
        "predicateTypes": [SAID],
        "signedIdentity": { "type": "exactRepository", "dockerRepository": repository },
    }])
}

async fn say(scene: &Scene, person: &Person, kinds: &[&str]) {
    let digest = scene.built.digest();
    let say = |kind: &&str| person.attest(&statement(digest, Some("v.example/app"), kind), None);
    let all: Vec<ImageAttestation> = kinds.iter().map(say).collect();
    scene
        .registry
        .push_attestations("team/app", digest, &all)
        .await;
}

#[tokio::test]
async fn what_was_attested_is_found_and_kept() {
    let mut scene = Scene::new().await;
    let person = Person::with(Key::new());
    scene.set_for("policy.json", &wanted(&scene, &person, "v.example/app"));
    assert_refused(scene.pull().await, "but has no such attestation");
    say(&scene, &person, &["https://a.example/other"]).await;
    assert_refused(scene.pull().await, "but has no such attestation");
    say(&scene, &person, &["https://a.example/other", SAID]).await;
    let image = scene.pull().await.unwrap();
    scene.place.reopen().await;
    scene.admit(&image).await.unwrap();
    // What others write there later does not take its place.
    scene.set_for("namespaces/open.json", &accept());
    say(&scene, &Person::with(Key::new()), &[SAID; 30]).await;
    pull_for(&scene.place.images, &scene.name(), "open")
        .await
        .unwrap();
    scene.admit(&image).await.unwrap();
    scene.set_for("policy.json", &wanted(&scene, &person, "v.example/other"));
    assert_refused(
        scene.admit(&image).await,
        "not for an image of v.example/other",
    );
}

#[tokio::test]
async fn they_are_asked_for_where_the_policy_asks_for_them_only() {
    let scene = Scene::new().await;
    let person = Person::with(Key::new());
    say(&scene, &person, &[SAID]).await;
    scene.sign(scene.built.digest(), "v.example/app:1").await;
    let proxy = FaultProxy::before(scene.registry.address());
    let name = proxy.reference("team/app:1");
    let asked = || {
        let seen = proxy.seen();
        seen.iter().filter(|it| it.path.contains(".att")).count()
    };
    let exact = json!({ "type": "exactReference", "dockerReference": "v.example/app:1" });
    scene.set_for("policy.json", &scene.signed(&exact));
    let image = pull_for(&scene.place.images, &name, "").await.unwrap();
    assert_eq!(asked(), 0);
    let both = [
        wanted(&scene, &person, "v.example/app")[0].clone(),
        scene.signed(&exact)[0].clone(),
    ];
    scene.set_for("policy.json", &json!(both));
    let reference: Reference = name.parse().unwrap();
    let admitted = scene.place.images.admit(&image.id, Some(&reference), "");
    assert_refused(admitted.await, "but has no such attestation");
    pull_for(&scene.place.images, &name, "").await.unwrap();
    assert_eq!(asked(), 1);
    let admitted = scene.place.images.admit(&image.id, Some(&reference), "");
    admitted.await.unwrap();
}

#[tokio::test]
async fn who_does_not_ask_for_them_leaves_those_that_are_kept() {
    let scene = Scene::new().await;
    let person = Person::with(Key::new());
    let other = "https://a.example/other";
    say(&scene, &person, &[SAID, other]).await;
    scene.set_for("policy.json", &wanted(&scene, &person, "v.example/app"));
    let image = scene.pull().await.unwrap();
    scene.set_for("namespaces/open.json", &accept());
    pull_for(&scene.place.images, &scene.name(), "open")
        .await
        .unwrap();
    // No policy has asked for this one so far.
    let mut changed = wanted(&scene, &person, "v.example/app");
    changed[0]["predicateTypes"] = json!([other]);
    scene.set_for("policy.json", &changed);
    scene.admit(&image).await.unwrap();
}

#[tokio::test]
async fn crowds_of_attestations_and_such_that_cannot_be_had_refuse_the_image() {
    let scene = Scene::new().await;
    let person = Person::with(Key::new());
    scene.set_for("policy.json", &wanted(&scene, &person, "v.example/app"));
    say(&scene, &person, &[SAID; 32]).await;
    scene.pull().await.unwrap();
    say(&scene, &person, &[SAID; 33]).await;
    let error = scene.pull().await.unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    say(&scene, &person, &[SAID]).await;
    let proxy = FaultProxy::before(scene.registry.address());
    proxy.rule(Rule::on(".att", Fault::status(403)));
    let pulled = pull_for(&scene.place.images, &proxy.reference("team/app:1"), "").await;
    let error = pulled.unwrap_err();
    assert!(!matches!(error, Error::NotAllowed { .. }), "{error}");
}
