//! Signatures made with GPG in stores beside the registry.

/// Begins a test: skips it where there is no GnuPG, else gives a [`Scene`].
macro_rules! scene {
    () => {{
        orlop_testkit::skip_unless!(orlop_testkit::machine::has_program("gpg"));
        crate::gpg::Scene::new().await
    }};
}

mod judged;
mod stores;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use http::Method;
use orlop_image_store::{Error, Image, Images, PolicyFiles, PullRequest, Reference, Result};
use orlop_testkit::gpg::image_payload;
use orlop_testkit::{
    BuiltImage, Fault, FaultProxy, Gpg, ImageBuilder, Layer, Registry, Rule, Scratch, machine,
    skip_unless,
};
use serde_json::{Value, json};

use crate::support::{Place, assert_refused};

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
        self.place.pull(&self.name()).await
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
    let mut scene = scene!();
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

#[tokio::test]
async fn a_verdict_on_what_is_not_here_asks_the_store() {
    let scene = scene!();
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

/// Nothing is fetched and nothing is remembered, and yet a container does not wait.
#[tokio::test]
async fn a_container_is_judged_in_no_time() {
    let scene = scene!();
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
