//! What strangers write to repositories does not take the place of what others have signed.

use orlop_image_store::Reference;
use orlop_testkit::{Fault, FaultProxy, ImageSignature, KeyKind, Rule, Signer};
use serde_json::json;

use crate::bundles::head;
use crate::signatures::{Scene, accept, pull_for};
use crate::support::assert_refused;

/// As many signatures as are looked at, by a stranger, and others each time.
fn rubbish(scene: &Scene, turn: usize) -> Vec<ImageSignature> {
    let dir = scene.policies.join(format!("strangers-{turn}"));
    std::fs::create_dir(&dir).unwrap();
    let stranger = Signer::new(&dir, "stranger", KeyKind::P256);
    let name = |number| format!("{}{number}", scene.name());
    let sign = |number| stranger.sign_image(scene.built.digest(), &name(number));
    (0..64).map(sign).collect()
}

#[tokio::test]
async fn rubbish_in_a_repository_of_ones_own_leaves_what_others_have_signed() {
    let scene = Scene::new().await;
    scene.set_for("namespaces/open.json", &accept());
    scene.sign(scene.built.digest(), &scene.name()).await;
    let name = scene.name();
    // Nobody has judged them.
    let image = pull_for(&scene.place.images, &name, "open").await.unwrap();
    scene.registry.push(&scene.built, "evil/app:1").await;
    let name = scene.registry.reference("evil/app:1");
    for turn in 0..3 {
        let rubbish = rubbish(&scene, turn);
        scene
            .registry
            .push_signatures("evil/app", scene.built.digest(), &rubbish)
            .await;
        pull_for(&scene.place.images, &name, "open").await.unwrap();
    }
    scene.admit(&image).await.unwrap();
    let evil: Reference = name.parse().unwrap();
    let admitted = scene.place.images.admit(&image.id, Some(&evil), "").await;
    assert_refused(admitted, "none of its 65 signatures is accepted");
}

#[tokio::test]
async fn rubbish_in_the_same_repository_leaves_what_was_accepted() {
    let mut scene = Scene::new().await;
    scene.set_for("namespaces/open.json", &accept());
    scene.sign(scene.built.digest(), &scene.name()).await;
    let image = scene.pull().await.unwrap();
    for turn in 0..3 {
        let rubbish = rubbish(&scene, turn);
        scene
            .registry
            .push_signatures("team/app", scene.built.digest(), &rubbish)
            .await;
        let name = scene.name();
        pull_for(&scene.place.images, &name, "open").await.unwrap();
    }
    scene.place.reopen().await;
    scene.admit(&image).await.unwrap();
}

#[tokio::test]
async fn copies_of_an_accepted_signature_leave_what_another_policy_has_accepted() {
    let mut scene = Scene::new().await;
    let digest = scene.built.digest().to_owned();
    let other = Signer::new(&scene.policies, "other", KeyKind::P256);
    let identity = json!({ "type": "matchRepoDigestOrExact" });
    let by_other = json!([{
        "type": "sigstoreSigned",
        "keyPath": other.public_key(),
        "signedIdentity": identity,
    }]);
    scene.set_for("namespaces/other.json", &by_other);
    let name = scene.name();
    let push = async |scene: &Scene, signatures: &[ImageSignature]| {
        let registry = &scene.registry;
        registry
            .push_signatures("team/app", &digest, signatures)
            .await;
    };
    push(&scene, &[other.sign_image(&digest, &name)]).await;
    let images = &scene.place.images;
    let image = pull_for(images, &name, "other").await.unwrap();
    let good = scene.signer.sign_image(&digest, &name);
    for turn in 0..3 {
        // A policy with a key looks at nothing beside the signature.
        let copy = |number| ImageSignature {
            chain: Some(format!("{turn} {number}")),
            ..good.clone()
        };
        let copies: Vec<_> = (0..64).map(copy).collect();
        push(&scene, &copies).await;
        scene.pull().await.unwrap();
    }
    scene.place.reopen().await;
    scene.admit(&image).await.unwrap();
    let reference: Reference = name.parse().unwrap();
    let admitted = scene
        .place
        .images
        .admit(&image.id, Some(&reference), "other");
    admitted.await.unwrap();
}

#[tokio::test]
async fn the_same_signature_for_two_repositories_is_judged_once() {
    let scene = Scene::new().await;
    scene.set_for("namespaces/open.json", &accept());
    let digest = scene.built.digest();
    let signature = scene.signer.sign_image(digest, "elsewhere.example/app:1");
    for repository in ["team/app", "team/other"] {
        let name = format!("{repository}:1");
        scene.registry.push(&scene.built, &name).await;
        scene
            .registry
            .push_signatures(repository, digest, std::slice::from_ref(&signature))
            .await;
        let name = scene.registry.reference(&name);
        let image = pull_for(&scene.place.images, &name, "open").await.unwrap();
        let name: Reference = name.parse().unwrap();
        let admitted = scene.place.images.admit(&image.id, Some(&name), "").await;
        assert_refused(admitted, "its signature is not accepted");
    }
    let wanted = json!({ "type": "exactReference", "dockerReference": "elsewhere.example/app:1" });
    scene.set_for("policy.json", &scene.signed(&wanted));
    scene.pull().await.unwrap();
}

#[tokio::test]
async fn of_signatures_that_are_attached_so_many_count_and_no_more() {
    let scene = Scene::new().await;
    let exact = json!({ "type": "exactRepository", "dockerRepository": "v.example/app" });
    scene.set_for("policy.json", &scene.signed(&exact));
    let digest = scene.built.digest();
    let good = scene.signer.sign_image(digest, "v.example/app:1");
    let stranger = Signer::new(&scene.policies, "stranger", KeyKind::P256);
    let bad = stranger.sign_image(digest, "v.example/app:1");
    let kind = "application/vnd.dev.cosign.artifact.sig.v1+json";
    for (before, accepted) in [(63, true), (64, false)] {
        let proxy = FaultProxy::before(scene.registry.address());
        let mut list = Vec::new();
        let others = vec![bad.clone(); before - 30];
        for signatures in [
            vec![bad.clone(); 30],
            [&others[..], std::slice::from_ref(&good)].concat(),
        ] {
            // At a tag where nobody looks for them.
            let place = orlop_testkit::image::digest(format!("{before} {}", list.len()).as_bytes());
            scene
                .registry
                .push_signatures("team/app", &place, &signatures)
                .await;
            let tag = format!("{}.sig", place.replacen(':', "-", 1));
            let host = scene.registry.host();
            let found = head(&format!("http://{host}/v2/team/app/manifests/{tag}")).await;
            list.push(json!({ "digest": found, "artifactType": kind }));
        }
        let list = json!({ "schemaVersion": 2, "manifests": list }).to_string();
        let index = "application/vnd.oci.image.index.v1+json";
        proxy.rule(Rule::on("/referrers/", Fault::content(index, list)));
        let pulled = pull_for(&scene.place.images, &proxy.reference("team/app:1"), "").await;
        if accepted {
            pulled.unwrap();
        } else {
            assert_refused(pulled, "none of its 64 signatures is accepted");
        }
    }
}
