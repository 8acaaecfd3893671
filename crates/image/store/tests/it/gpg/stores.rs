//! Where GPG signatures come from: stores on the web, and the files that name them.

use super::*;
use orlop_testkit::assert_contains;

/// A store on the web: it has nothing but what it is told.
fn on_the_web(scene: &Scene) -> FaultProxy {
    let web = FaultProxy::alone();
    scene.set_store(&format!("http://{}/sigs/", web.host()));
    web
}

fn serve(web: &FaultProxy, scene: &Scene, number: usize, message: Vec<u8>) {
    let digest = scene.built.digest().replacen(':', "=", 1);
    let path = format!("/sigs/team/app@{digest}/signature-{number}");
    web.rule(Rule::on(
        &path,
        Fault::content("application/octet-stream", message),
    ));
}

#[tokio::test]
async fn signatures_come_from_the_web_and_are_few_and_small() {
    let scene = scene!();
    let web = on_the_web(&scene);
    assert_refused(scene.pull().await, "has no signature");
    assert_eq!(web.count(Method::GET, "/signature-1"), 1);
    let stranger = scene.gpg.make_key("stranger", "ed25519", "sign", "never");
    let bad = scene.gpg.sign(&stranger, &[], &scene.own_payload());
    let good = scene.gpg.sign(&scene.key, &[], &scene.own_payload());
    // The first rule that is found in a path counts.
    web.rule(Rule::on("signature-65", Fault::status(404)));
    for number in (1..=64).rev() {
        serve(
            &web,
            &scene,
            number,
            if number == 64 {
                good.clone()
            } else {
                bad.clone()
            },
        );
    }
    scene.pull().await.unwrap();
    scene.forget().await;
    web.heal();
    for number in (1..=70).rev() {
        serve(&web, &scene, number, good.clone());
    }
    let error = scene.pull().await.unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    assert!(error.to_string().contains("64 signatures"), "{error}");
    web.heal();
    serve(&web, &scene, 1, vec![b'x'; 65 << 10]);
    let error = scene.pull().await.unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    web.heal();
    web.rule(Rule::on("signature-10", Fault::status(404)));
    for number in (1..=9).rev() {
        serve(&web, &scene, number, vec![b'x'; 64 << 10]);
    }
    let error = scene.pull().await.unwrap_err();
    assert!(error.to_string().contains("524288 bytes"), "{error}");
    // Who needs none is not kept from the image.
    scene.accept();
    scene.pull().await.unwrap();
}

#[tokio::test]
async fn a_store_that_fails_refuses_where_it_matters() {
    let scene = scene!();
    let good = scene.gpg.sign(&scene.key, &[], &scene.own_payload());
    for fault in [
        Fault::status(500),
        Fault::status(403),
        Fault::redirect("ftp://a.example/x"),
        Fault::redirect("/signature-1"),
        Fault::Disconnect,
    ] {
        let web = on_the_web(&scene);
        web.rule(Rule::on("signature-1", fault));
        scene
            .set(&json!({ "type": "signedBy", "keyType": "GPGKeys", "keyPath": scene.key_file() }));
        let error = scene.pull().await.unwrap_err();
        assert!(!matches!(error, Error::NotAllowed { .. }), "{error}");
        scene.accept();
        scene.pull().await.unwrap();
        scene.forget().await;
    }
    // One that fails for a moment, and one that sends elsewhere, have it all the same.
    scene.set(&json!({ "type": "signedBy", "keyType": "GPGKeys", "keyPath": scene.key_file() }));
    let web = on_the_web(&scene);
    web.rule(Rule::on("signature-1", Fault::status(503)).times(1));
    serve(&web, &scene, 1, good.clone());
    scene.pull().await.unwrap();
    scene.forget().await;
    let (web, other) = (on_the_web(&scene), FaultProxy::alone());
    web.rule(Rule::on(
        "signature-1",
        Fault::redirect(&format!("http://{}/there", other.host())),
    ));
    other.rule(Rule::on("/there", Fault::content("x/y", good)));
    scene.pull().await.unwrap();
}

#[tokio::test]
async fn a_file_that_says_where_signatures_are_must_be_right() {
    let scene = scene!();
    let message = scene.gpg.sign(&scene.key, &[], &scene.own_payload());
    scene.put(scene.built.digest(), &[message]);
    let file = scene.scratch.path("registries.d/other.yaml");
    std::fs::write(&file, "docker: 7\n").unwrap();
    let error = scene.pull().await.unwrap_err();
    assert!(matches!(error, Error::Configuration { .. }), "{error}");
    assert_contains!(error.to_string(), "other.yaml: line 1: must be a map");
    scene.accept();
    scene.pull().await.unwrap();
}

#[tokio::test]
async fn attached_signatures_are_asked_for_unless_a_file_says_no() {
    let scene = scene!();
    let proxy = FaultProxy::before(scene.registry.address());
    let name = proxy.reference("team/app:1");
    scene.accept();
    scene.place.pull(&name).await.unwrap();
    assert_eq!(proxy.count(Method::GET, ".sig"), 1);
    let file = scene.scratch.path("registries.d/proxy.yaml");
    let text = format!(
        "docker:\n  {}: {{use-sigstore-attachments: false}}\n",
        proxy.host()
    );
    std::fs::write(&file, text).unwrap();
    scene.place.images.remove(&name).await.unwrap();
    proxy.forget();
    scene.place.pull(&name).await.unwrap();
    assert_eq!(proxy.count(Method::GET, ".sig"), 0);
    scene.set(&json!({ "type": "sigstoreSigned", "keyPath": "/k.pub" }));
    let error = scene.place.pull(&name).await.unwrap_err().to_string();
    assert_contains!(
        error,
        "proxy.yaml: it sets \"use-sigstore-attachments: false\""
    );
}

/// Nothing is asked one after the other: the store, the registry's own signatures, what follows the first one.
#[tokio::test]
async fn a_signature_costs_no_more_than_one_answer() {
    let scene = scene!();
    let registry = FaultProxy::before(scene.registry.address());
    let name = registry.reference("team/app:1");
    let store = FaultProxy::alone();
    let web = FaultProxy::before(store.address());
    let text = format!("default-docker:\n  lookaside: http://{}/\n", web.host());
    std::fs::write(scene.scratch.path("registries.d/store.yaml"), text).unwrap();
    let payload = image_payload(scene.built.digest(), &name);
    let good = scene.gpg.sign(&scene.key, &[], &payload);
    let hold = Duration::from_millis(500);
    store.rule(Rule::on("signature-1", Fault::content("x/y", good)));
    let late = || Fault::Stall { after: 0, hold };
    web.rule(Rule::on("signature-", late()));
    registry.rule(Rule::on(".sig", late()));
    registry.rule(Rule::on(scene.built.id(), late()));
    let begin = Instant::now();
    scene.place.pull(&name).await.unwrap();
    let took = begin.elapsed();
    eprintln!("pulled in {took:?}");
    assert!(took >= hold, "nothing was late: {took:?}");
    assert!(took < hold * 2 * machine::patience(), "{took:?}");
    assert_eq!(web.count(Method::GET, "signature-"), 2);
    assert_eq!(registry.count(Method::GET, ".sig"), 1);
}
