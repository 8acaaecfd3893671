//! Signatures made with GPG in stores beside the registry, as GnuPG and skopeo make them and judge them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use http::Method;
use orlop_image::{Error, Image, Images, PolicyFiles, PullRequest, Reference, Result};
use orlop_testkit::gpg::image_payload;
use orlop_testkit::{
    BuiltImage, Fault, FaultProxy, Gpg, ImageBuilder, Layer, Registry, Rule, Scratch, machine,
    skip_unless,
};
use serde_json::{Value, json};

use crate::support::{Place, pull};

/// A registry with an image, a store of signatures, somebody who signs, and a node with a policy.
struct Scene {
    registry: Registry,
    built: BuiltImage,
    gpg: Gpg,
    key: String,
    place: Place,
    scratch: Scratch,
}

impl Scene {
    async fn new() -> Self {
        Self::of(ImageBuilder::new()).await
    }

    async fn of(image: ImageBuilder) -> Self {
        let (scratch, registry, gpg) = (Scratch::new(), Registry::start(), Gpg::new());
        let built = image.layer(Layer::new().file("f", "x", 0o644)).build();
        registry.push(&built, "team/app:1").await;
        let (policy, stores) = (scratch.path("policy.json"), scratch.subdir("registries.d"));
        let place = Place::with(|config| {
            config.policies = PolicyFiles {
                node: Some(policy),
                namespaces: None,
            };
            config.signature_stores = Some(stores);
        });
        let scene = Self {
            place: place.await,
            key: gpg.make_key("team <team@a.example>", "rsa2048", "sign", "never"),
            registry,
            built,
            gpg,
            scratch,
        };
        std::fs::write(scene.key_file(), scene.gpg.export(&scene.key)).unwrap();
        scene.set_store(&format!(
            "file://{}",
            scene.scratch.subdir("store").display()
        ));
        scene
            .set(&json!({ "type": "signedBy", "keyType": "GPGKeys", "keyPath": scene.key_file() }));
        scene
    }

    fn key_file(&self) -> PathBuf {
        self.scratch.path("team.gpg")
    }

    /// Says where the signatures of the registry's images are.
    fn set_store(&self, address: &str) {
        let text = format!(
            "docker:\n  {}:\n    lookaside: {address}\n",
            self.registry.host()
        );
        std::fs::write(self.scratch.path("registries.d/store.yaml"), text).unwrap();
    }

    /// Replaces the policy by one with this requirement.
    fn set(&self, requirement: &Value) {
        let text = json!({ "default": [requirement] }).to_string();
        std::fs::write(self.scratch.path("policy.json"), text).unwrap();
    }

    fn accept(&self) {
        self.set(&json!({ "type": "insecureAcceptAnything" }));
    }

    fn name(&self) -> String {
        self.registry.reference("team/app:1")
    }

    fn own_payload(&self) -> Vec<u8> {
        image_payload(self.built.digest(), &self.name())
    }

    /// Where the store has the signatures of a manifest.
    fn place_of(&self, digest: &str) -> PathBuf {
        let digest = digest.replacen(':', "=", 1);
        self.scratch.path(&format!("store/team/app@{digest}"))
    }

    /// Puts these in place of the signatures that the store has of a manifest.
    fn put(&self, digest: &str, messages: &[Vec<u8>]) {
        let place = self.place_of(digest);
        let _ = std::fs::remove_dir_all(&place);
        std::fs::create_dir_all(&place).unwrap();
        for (index, message) in messages.iter().enumerate() {
            let file = place.join(format!("signature-{}", index + 1));
            std::fs::write(file, message).unwrap();
        }
    }

    async fn pull(&self) -> Result<Image> {
        pull(&self.place.images, &self.name()).await
    }

    async fn admit(&self, image: &Image) -> Result<()> {
        let name: Reference = self.name().parse().unwrap();
        self.place.images.admit(&image.id, Some(&name), "").await
    }

    /// Removes the image, so that the next pull begins anew.
    async fn forget(&self) {
        let _ = self.place.images.remove(&self.name()).await;
    }

    fn skopeo(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new("skopeo");
        command
            .env("GNUPGHOME", self.gpg.home())
            .arg("--policy")
            .arg(self.scratch.path("policy.json"))
            .arg("--registries.d")
            .arg(self.scratch.path("registries.d"))
            .args(arguments);
        command.stdin(Stdio::null()).output().expect("start skopeo")
    }

    /// Whether skopeo lets the image pass by the same policy and store; else why not.
    fn skopeo_accepts(&self) -> std::result::Result<(), String> {
        let to = self.scratch.path("skopeo");
        let _ = std::fs::remove_dir_all(&to);
        let to = format!("dir:{}", to.display());
        let from = format!("docker://{}", self.name());
        let copy = [
            "copy",
            "--remove-signatures",
            "--src-tls-verify=false",
            &from,
            &to,
        ];
        let output = self.skopeo(&copy);
        if output.status.success() {
            return Ok(());
        }
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

#[track_caller]
fn assert_refused<T: std::fmt::Debug>(outcome: Result<T>, because: &str) {
    let error = outcome.expect_err("it must not be allowed");
    assert!(matches!(error, Error::NotAllowed { .. }), "{error}");
    assert!(error.to_string().contains(because), "{error}");
}

#[tokio::test]
async fn what_skopeo_signs_while_it_copies_is_pulled() {
    skip_unless!(machine::has_program("gpg").and_then(|()| machine::has_program("skopeo")));
    let scene = Scene::new().await;
    assert_refused(
        scene.pull().await,
        "it has to be signed with GPG, and has no signature",
    );
    assert_eq!(scene.place.layer_dirs(), 0);
    scene.accept();
    let name = format!("docker://{}", scene.name());
    let copied = scene.skopeo(&[
        "copy",
        "--src-tls-verify=false",
        "--dest-tls-verify=false",
        "--sign-by",
        &scene.key,
        &name,
        &name,
    ]);
    assert!(copied.status.success(), "{copied:?}");
    assert!(
        scene
            .place_of(scene.built.digest())
            .join("signature-1")
            .exists()
    );
    scene.set(&json!({ "type": "signedBy", "keyType": "GPGKeys", "keyPath": scene.key_file() }));
    let image = scene.pull().await.unwrap();
    scene.admit(&image).await.unwrap();
    let verdict = scene
        .place
        .images
        .judge(&image.id, None, "")
        .await
        .unwrap()
        .unwrap();
    let reason = &verdict.requirements[0].reason;
    let expected = format!("signed by {} (team <team@a.example>) as ", scene.key);
    assert!(reason.starts_with(&expected), "{reason}");
}

#[tokio::test]
async fn what_skopeo_signs_alone_is_pulled() {
    skip_unless!(machine::has_program("gpg").and_then(|()| machine::has_program("skopeo")));
    let scene = Scene::new().await;
    let [manifest, signature] = ["manifest", "signature"].map(|it| scene.scratch.path(it));
    std::fs::write(&manifest, &scene.built.top.bytes).unwrap();
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let (manifest, output) = (text(&manifest), text(&signature));
    let name = scene.name();
    let signed = scene.skopeo(&[
        "standalone-sign",
        "-o",
        &output,
        &manifest,
        &name,
        &scene.key,
    ]);
    assert!(signed.status.success(), "{signed:?}");
    scene.put(scene.built.digest(), &[std::fs::read(signature).unwrap()]);
    scene.pull().await.unwrap();
}

/// Each row: what is in the store, and why that will not do.
#[tokio::test]
async fn what_is_refused_here_skopeo_refuses_too() {
    skip_unless!(machine::has_program("gpg").and_then(|()| machine::has_program("skopeo")));
    let mut scene = Scene::new().await;
    let (digest, payload) = (scene.built.digest().to_owned(), scene.own_payload());
    let other = ImageBuilder::new()
        .marked("other")
        .build()
        .digest()
        .to_owned();
    let stranger = scene.gpg.make_key("stranger", "ed25519", "sign", "never");
    let sign = |key: &str, options: &[&str], payload: &[u8]| scene.gpg.sign(key, options, payload);
    let good = sign(&scene.key, &["--compress-algo", "uncompressed"], &payload);
    let mut tampered = good.clone();
    let at = tampered.windows(4).position(|it| it == b"team").unwrap();
    tampered[at] = b'T';
    let second = format!("{stranger}!");
    let team = &scene.key;
    let weak = ["--allow-weak-digest-algos", "--digest-algo", "MD5"];
    let rows = [
        ("has not signed this", tampered),
        (
            "it is for another image",
            sign(team, &[], &image_payload(&other, &scene.name())),
        ),
        (
            "not for",
            sign(
                team,
                &[],
                &image_payload(&digest, &scene.registry.reference("x:1")),
            ),
        ),
        ("which is none of those", sign(&stranger, &[], &payload)),
        ("MD5, which is too weak", sign(team, &weak, &payload)),
        (
            "it has 2 signatures",
            sign(team, &["--local-user", &second], &payload),
        ),
        ("it has 2 signatures", [&good[..], &good].concat()),
        ("ends in the middle", good[..good.len() - 9].to_vec()),
        ("there is none in it", scene.gpg.run(&["--store"], &payload)),
    ];
    scene.put(&digest, std::slice::from_ref(&good));
    scene.pull().await.unwrap();
    scene.skopeo_accepts().unwrap();
    for (because, message) in rows {
        scene.forget().await;
        scene.put(&digest, &[message]);
        assert_refused(scene.pull().await, because);
        scene.skopeo_accepts().expect_err(because);
        // Another one beside it will do, for both.
        let message = std::fs::read(scene.place_of(&digest).join("signature-1")).unwrap();
        scene.put(&digest, &[message, good.clone()]);
        scene.pull().await.unwrap();
        scene.skopeo_accepts().unwrap();
    }
    // Keys and signatures whose time is over, and a key that is worth nothing any more.
    scene.gpg.set_time(Some("20240101T000000"));
    let short = scene.gpg.make_key("short", "ed25519", "sign", "1y");
    let long = scene.gpg.make_key("long", "ed25519", "sign", "never");
    let revoked = scene.gpg.make_key("revoked", "ed25519", "sign", "never");
    let rows = [
        (&short, "has expired on 2024-12-31", &[][..]),
        (
            &long,
            "it has expired on 2024-01-08",
            &["--default-sig-expire", "7d"],
        ),
        (&revoked, "is revoked", &[]),
    ];
    for (key, because, options) in rows {
        scene.forget().await;
        scene.put(&digest, &[scene.gpg.sign(key, options, &payload)]);
        if *key == revoked {
            scene.gpg.revoke(key);
        }
        std::fs::write(scene.key_file(), scene.gpg.export(key)).unwrap();
        assert_refused(scene.pull().await, because);
        scene.skopeo_accepts().expect_err(because);
    }
}

#[tokio::test]
async fn an_old_hash_is_refused_here_alone() {
    skip_unless!(machine::has_program("gpg").and_then(|()| machine::has_program("skopeo")));
    let scene = Scene::new().await;
    let message = scene
        .gpg
        .sign(&scene.key, &["--digest-algo", "SHA1"], &scene.own_payload());
    scene.put(scene.built.digest(), &[message]);
    assert_refused(
        scene.pull().await,
        "it is made with SHA-1, which is too weak",
    );
    scene.skopeo_accepts().unwrap();
}

#[tokio::test]
async fn signatures_of_the_index_and_of_the_manifest_count() {
    skip_unless!(machine::has_program("gpg"));
    let scene = Scene::of(ImageBuilder::new().index()).await;
    let own = scene.built.manifests.last().unwrap().digest.clone();
    let foreign = scene.built.manifests[0].digest.clone();
    let sign = |digest: &str| {
        let payload = image_payload(digest, &scene.name());
        scene.put(digest, &[scene.gpg.sign(&scene.key, &[], &payload)]);
    };
    sign(&foreign);
    assert_refused(scene.pull().await, "has no signature");
    for digest in [scene.built.digest(), &own] {
        sign(digest);
        let image = scene.pull().await.unwrap();
        scene.admit(&image).await.unwrap();
        scene.put(digest, &[]);
        scene.forget().await;
        assert_refused(scene.pull().await, "has no signature");
    }
}

#[tokio::test]
async fn a_policy_that_changes_finds_what_was_kept() {
    skip_unless!(machine::has_program("gpg"));
    let mut scene = Scene::new().await;
    let message = scene.gpg.sign(&scene.key, &[], &scene.own_payload());
    scene.put(scene.built.digest(), &[message]);
    // Nobody needs it at the pull.
    scene.accept();
    let image = scene.pull().await.unwrap();
    scene.put(scene.built.digest(), &[]);
    let signed = json!({ "type": "signedBy", "keyType": "GPGKeys", "keyPath": scene.key_file() });
    scene.set(&signed);
    scene.admit(&image).await.unwrap();
    scene.place.reopen().await;
    scene.admit(&image).await.unwrap();
    // The key is read anew for each container.
    scene.gpg.revoke(&scene.key);
    std::fs::write(scene.key_file(), scene.gpg.export(&scene.key)).unwrap();
    assert_refused(scene.admit(&image).await, "is revoked");
    std::fs::remove_file(scene.key_file()).unwrap();
    let error = scene.admit(&image).await.unwrap_err();
    assert!(matches!(error, Error::Policy { .. }), "{error}");
}

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
    skip_unless!(machine::has_program("gpg"));
    let scene = Scene::new().await;
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
    skip_unless!(machine::has_program("gpg"));
    let scene = Scene::new().await;
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
    skip_unless!(machine::has_program("gpg"));
    let scene = Scene::new().await;
    let message = scene.gpg.sign(&scene.key, &[], &scene.own_payload());
    scene.put(scene.built.digest(), &[message]);
    let file = scene.scratch.path("registries.d/other.yaml");
    std::fs::write(&file, "docker: 7\n").unwrap();
    let error = scene.pull().await.unwrap_err();
    assert!(matches!(error, Error::Configuration { .. }), "{error}");
    assert!(
        error
            .to_string()
            .contains("other.yaml: line 1: must be a map"),
        "{error}"
    );
    scene.accept();
    scene.pull().await.unwrap();
}

#[tokio::test]
async fn attached_signatures_are_asked_for_unless_a_file_says_no() {
    skip_unless!(machine::has_program("gpg"));
    let scene = Scene::new().await;
    let proxy = FaultProxy::before(scene.registry.address());
    let name = proxy.reference("team/app:1");
    scene.accept();
    pull(&scene.place.images, &name).await.unwrap();
    assert_eq!(proxy.count(Method::GET, ".sig"), 1);
    let file = scene.scratch.path("registries.d/proxy.yaml");
    let text = format!(
        "docker:\n  {}: {{use-sigstore-attachments: false}}\n",
        proxy.host()
    );
    std::fs::write(&file, text).unwrap();
    scene.place.images.remove(&name).await.unwrap();
    proxy.forget();
    pull(&scene.place.images, &name).await.unwrap();
    assert_eq!(proxy.count(Method::GET, ".sig"), 0);
    scene.set(&json!({ "type": "sigstoreSigned", "keyPath": "/k.pub" }));
    let error = pull(&scene.place.images, &name)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("proxy.yaml: it says \"use-sigstore-attachments: false\""),
        "{error}"
    );
}

#[tokio::test]
async fn a_verdict_on_what_is_not_here_asks_the_store() {
    skip_unless!(machine::has_program("gpg"));
    let scene = Scene::new().await;
    let judge = || async {
        let request = PullRequest {
            reference: scene.name(),
            ..PullRequest::default()
        };
        let images: &Images = &scene.place.images;
        images.judge_pull(request).await.unwrap().unwrap()
    };
    assert!(!judge().await.is_allowed());
    let message = scene.gpg.sign(&scene.key, &[], &scene.own_payload());
    scene.put(scene.built.digest(), &[message]);
    let verdict = judge().await;
    assert!(verdict.is_allowed(), "{verdict:?}");
    assert!(verdict.requirements[0].reason.contains(&scene.key));
    assert!(scene.place.images.list().is_empty());
}

/// Nothing is asked one after the other: the store, the registry's own signatures, what follows the first one.
#[tokio::test]
async fn a_signature_costs_no_more_than_one_answer() {
    skip_unless!(machine::has_program("gpg"));
    let scene = Scene::new().await;
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
    pull(&scene.place.images, &name).await.unwrap();
    let took = begin.elapsed();
    eprintln!("pulled in {took:?}");
    assert!(took >= hold, "nothing was late: {took:?}");
    assert!(took < hold * 2 * machine::patience(), "{took:?}");
    assert_eq!(web.count(Method::GET, "signature-"), 2);
    assert_eq!(registry.count(Method::GET, ".sig"), 1);
}

/// Nothing is fetched and nothing is remembered, and yet a container does not wait.
#[tokio::test]
async fn a_container_is_judged_in_no_time() {
    skip_unless!(machine::has_program("gpg"));
    let scene = Scene::new().await;
    let message = scene.gpg.sign(&scene.key, &[], &scene.own_payload());
    scene.put(scene.built.digest(), &[message]);
    let image = scene.pull().await.unwrap();
    let mut fastest = Duration::MAX;
    for _ in 0..50 {
        let begin = Instant::now();
        scene.admit(&image).await.unwrap();
        fastest = fastest.min(begin.elapsed());
    }
    eprintln!("judged in {fastest:?}");
    assert!(
        fastest < Duration::from_millis(5) * machine::patience(),
        "{fastest:?}"
    );
}
