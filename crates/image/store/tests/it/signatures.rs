//! Signature policies, with a real registry and signatures that openssl makes.

use std::path::PathBuf;

use orlop_image_store::{
    Error, Image, Images, PolicyFiles, PolicyFor, PullRequest, Reference, Result,
};
use orlop_testkit::{
    BuiltImage, Fault, FaultProxy, ImageBuilder, KeyKind, Layer, Registry, Rule, Scratch, Signer,
};
use serde_json::{Value, json};

use crate::support::{Place, assert_refused};

/// A registry with an image, a key, and a node with a policy.
pub(crate) struct Scene {
    pub(crate) registry: Registry,
    pub(crate) built: BuiltImage,
    pub(crate) signer: Signer,
    pub(crate) policies: PathBuf,
    pub(crate) place: Place,
    _scratch: Scratch,
}

impl Scene {
    pub(crate) async fn new() -> Self {
        Self::of(ImageBuilder::new()).await
    }

    async fn of(image: ImageBuilder) -> Self {
        let scratch = Scratch::new();
        let policies = scratch.subdir("policies");
        std::fs::create_dir(policies.join("namespaces")).unwrap();
        let registry = Registry::start();
        let built = image.layer(Layer::new().file("f", "x", 0o644)).build();
        registry.push(&built, "team/app:1").await;
        let files = PolicyFiles {
            node: Some(policies.join("policy.json")),
            namespaces: Some(policies.join("namespaces")),
        };
        let scene = Self {
            place: Place::with(|config| config.policies = files).await,
            signer: Signer::new(&scratch.subdir("keys"), "key", KeyKind::P256),
            registry,
            built,
            policies,
            _scratch: scratch,
        };
        scene.set(&scene.signed(&json!({ "type": "matchRepoDigestOrExact" })));
        scene
    }

    /// Replaces the node's policy by one with this default.
    fn set(&self, requirements: &Value) {
        self.set_for("policy.json", requirements);
    }

    pub(crate) fn set_for(&self, file: &str, requirements: &Value) {
        let text = json!({ "default": requirements }).to_string();
        std::fs::write(self.policies.join(file), text).unwrap();
    }

    pub(crate) fn signed(&self, identity: &Value) -> Value {
        json!([{
            "type": "sigstoreSigned",
            "keyPath": self.signer.public_key(),
            "signedIdentity": identity,
        }])
    }

    pub(crate) fn name(&self) -> String {
        self.registry.reference("team/app:1")
    }

    /// Signs what has this digest, for a name.
    pub(crate) async fn sign(&self, digest: &str, name: &str) {
        let signature = self.signer.sign_image(digest, name);
        self.registry
            .push_signatures("team/app", digest, &[signature])
            .await;
    }

    pub(crate) async fn pull(&self) -> Result<Image> {
        pull_for(&self.place.images, &self.name(), "").await
    }

    pub(crate) async fn admit(&self, image: &Image) -> Result<()> {
        let name: Reference = self.name().parse().unwrap();
        self.place.images.admit(&image.id, Some(&name), "").await
    }
}

pub(crate) async fn pull_for(images: &Images, name: &str, namespace: &str) -> Result<Image> {
    let request = PullRequest {
        reference: name.to_owned(),
        auth: None,
        wait: orlop_image_store::Wait::default(),
        handler: String::new(),
        policy: PolicyFor::Namespace(namespace.to_owned()),
    };
    images.pull(request).await
}

fn reject() -> Value {
    json!([{ "type": "reject" }])
}

pub(crate) fn accept() -> Value {
    json!([{ "type": "insecureAcceptAnything" }])
}

#[tokio::test]
async fn an_image_is_pulled_once_it_is_signed_and_no_layer_before() {
    let scene = Scene::new().await;
    assert_refused(
        scene.pull().await,
        "has no signature: no signature was found at sha256-",
    );
    assert_eq!(scene.place.layer_dirs(), 0);
    assert!(
        scene.place.entries("ingest").is_empty(),
        "a layer was asked for"
    );
    assert!(scene.place.images.list().is_empty());
    scene.sign(scene.built.digest(), &scene.name()).await;
    let image = scene.pull().await.unwrap();
    assert_eq!(image.id.to_string(), scene.built.id());
    scene.admit(&image).await.unwrap();
}

#[tokio::test]
async fn an_artifact_of_webassembly_is_pulled_once_it_is_signed() {
    let scene = Scene::new().await;
    let artifact = BuiltImage::wasm_artifact(b"\0asm\x01\0\0\0");
    let name = scene.registry.push(&artifact, "team/app:1").await;
    assert_refused(
        scene.pull().await,
        "has no signature: no signature was found at sha256-",
    );
    assert_eq!(scene.place.layer_dirs(), 0);
    scene.sign(artifact.digest(), &name).await;
    let image = scene.pull().await.unwrap();
    assert_eq!(image.id.to_string(), artifact.id());
    scene.admit(&image).await.unwrap();
}

#[tokio::test]
async fn what_is_rejected_is_not_even_asked_for() {
    let scene = Scene::new().await;
    let proxy = FaultProxy::before(scene.registry.address());
    scene.set(&reject());
    let pulled = pull_for(&scene.place.images, &proxy.reference("team/app:1"), "").await;
    assert_refused(pulled, "every image is rejected");
    assert!(proxy.seen().is_empty());
}

#[tokio::test]
async fn a_signature_of_the_index_or_of_the_manifest_will_do() {
    let scene = Scene::of(ImageBuilder::new().index()).await;
    let own = scene.built.manifests.last().unwrap().digest.clone();
    let other = scene.built.manifests[0].digest.clone();
    scene.sign(&other, &scene.name()).await;
    assert_refused(scene.pull().await, ".sig or sha256-");
    scene.sign(scene.built.digest(), &scene.name()).await;
    let image = scene.pull().await.unwrap();
    scene.admit(&image).await.unwrap();
    let done = scene.place.images.remove(&image.id.to_string()).await;
    done.unwrap();
    let scene = Scene::of(ImageBuilder::new().index()).await;
    scene.sign(&own, &scene.name()).await;
    let image = scene.pull().await.unwrap();
    scene.admit(&image).await.unwrap();
}

#[tokio::test]
async fn a_signature_of_another_image_or_tag_is_not_enough() {
    let scene = Scene::new().await;
    let older = ImageBuilder::new().marked("older").build();
    scene.registry.push(&older, "team/app:0").await;
    let signature = scene.signer.sign_image(older.digest(), &scene.name());
    let at = scene.built.digest();
    scene
        .registry
        .push_signatures("team/app", at, &[signature])
        .await;
    assert_refused(scene.pull().await, "it is for another image");
    scene
        .sign(at, &scene.registry.reference("team/app:2"))
        .await;
    assert_refused(scene.pull().await, "team/app:2, not for");
    scene.sign(at, &scene.registry.reference("team/app")).await;
    assert_refused(scene.pull().await, "like the signatures of cosign");
    scene.set(&scene.signed(&json!({ "type": "matchRepository" })));
    scene.pull().await.unwrap();
    let by_digest = scene.registry.reference(&format!("team/app@{at}"));
    pull_for(&scene.place.images, &by_digest, "").await.unwrap();
}

#[tokio::test]
async fn a_policy_that_changes_judges_what_is_there_anew_and_offline() {
    let mut scene = Scene::new().await;
    scene.sign(scene.built.digest(), &scene.name()).await;
    // Nobody needs the signature at the pull.
    scene.set(&accept());
    let image = scene.pull().await.unwrap();
    scene.admit(&image).await.unwrap();
    scene.set(&scene.signed(&json!({ "type": "matchExact" })));
    scene.admit(&image).await.unwrap();
    scene.place.reopen().await;
    let Scene {
        registry, place, ..
    } = &scene;
    let name: Reference = registry.reference("team/app:1").parse().unwrap();
    let elsewhere: Reference = registry.reference("team/app:2").parse().unwrap();
    let admit = |name: Option<&Reference>| {
        let (images, name) = (place.images.clone(), name.cloned());
        async move { images.admit(&image.id, name.as_ref(), "").await }
    };
    admit(Some(&name)).await.unwrap();
    admit(None).await.unwrap();
    assert_refused(admit(Some(&elsewhere)).await, "not for");
    let another = Signer::new(&scene.policies, "another", KeyKind::Ed25519);
    scene.set(&json!([{ "type": "sigstoreSigned", "keyPath": another.public_key() }]));
    assert_refused(admit(Some(&name)).await, "it is not signed with");
    scene.set(&reject());
    assert_refused(admit(None).await, "every image is rejected");
    std::fs::write(scene.policies.join("policy.json"), "{").unwrap();
    let broken = admit(Some(&name)).await.unwrap_err();
    assert!(matches!(broken, Error::Policy { .. }), "{broken}");
    std::fs::remove_file(scene.policies.join("policy.json")).unwrap();
    let missing = scene.pull().await.unwrap_err().to_string();
    assert!(
        missing.ends_with("policy.json: the file does not exist"),
        "{missing}"
    );
}

#[tokio::test]
async fn an_image_pulled_before_there_was_a_policy_needs_its_signatures() {
    let scene = Scene::new().await;
    scene.sign(scene.built.digest(), &scene.name()).await;
    let open = Place::open().await;
    let image = pull_for(&open.images, &scene.name(), "").await.unwrap();
    let mut config = open.config.clone();
    config.policies = PolicyFiles {
        node: Some(scene.policies.join("policy.json")),
        namespaces: None,
    };
    open.images.close().await;
    let scratch = open.scratch;
    drop(open.images);
    let images = Images::open(config).await.unwrap();
    assert_refused(images.admit(&image.id, None, "").await, "pull it again");
    pull_for(&images, &scene.name(), "").await.unwrap();
    images.admit(&image.id, None, "").await.unwrap();
    images.close().await;
    drop((images, scratch));
}

#[tokio::test]
async fn a_removed_image_takes_its_signatures_along() {
    let scene = Scene::new().await;
    scene.sign(scene.built.digest(), &scene.name()).await;
    let image = scene.pull().await.unwrap();
    scene.place.images.remove(&scene.name()).await.unwrap();
    // Where signatures are gone, an image without any comes back.
    scene
        .registry
        .push_signatures("team/app", scene.built.digest(), &[])
        .await;
    assert_refused(scene.pull().await, "has no signature");
    scene.set(&accept());
    scene.pull().await.unwrap();
    scene.set(&scene.signed(&json!({ "type": "matchExact" })));
    assert_refused(scene.admit(&image).await, "has no signature");
}

#[tokio::test]
async fn each_namespace_has_its_say_even_over_a_pull_under_way() {
    let scene = Scene::new().await;
    scene.set_for("namespaces/open.json", &accept());
    scene.set_for("namespaces/closed.json", &reject());
    let images = &scene.place.images;
    let name = scene.name();
    let (open, closed, other) = tokio::join!(
        pull_for(images, &name, "open"),
        pull_for(images, &name, "closed"),
        pull_for(images, &name, "other"),
    );
    let image = open.unwrap();
    assert_refused(closed, "closed.json (default)");
    assert_refused(other, "policy.json (default)");
    let reference: Reference = name.parse().unwrap();
    for (namespace, allowed) in [
        ("open", true),
        ("closed", false),
        ("other", false),
        ("", false),
    ] {
        let admitted = images.admit(&image.id, Some(&reference), namespace).await;
        assert_eq!(admitted.is_ok(), allowed, "{namespace}: {admitted:?}");
    }
    let outside = pull_for(images, &name, "../open").await.unwrap_err();
    assert!(matches!(outside, Error::Policy { .. }), "{outside}");
}

#[tokio::test]
async fn crowds_of_signatures_are_refused_where_they_matter() {
    let scene = Scene::new().await;
    let digest = scene.built.digest();
    let good = scene.signer.sign_image(digest, &scene.name());
    let stranger = Signer::new(&scene.policies, "stranger", KeyKind::P256);
    let bad = stranger.sign_image(digest, &scene.name());
    let mut crowd = vec![bad; 63];
    crowd.push(good.clone());
    scene
        .registry
        .push_signatures("team/app", digest, &crowd)
        .await;
    scene.pull().await.unwrap();
    crowd.extend(vec![good; 3000]);
    scene
        .registry
        .push_signatures("team/app", digest, &crowd)
        .await;
    let error = scene.pull().await.unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    scene.set(&accept());
    scene.pull().await.unwrap();
}

#[tokio::test]
async fn signatures_that_cannot_be_had_refuse_where_they_matter() {
    let scene = Scene::new().await;
    scene.sign(scene.built.digest(), &scene.name()).await;
    let large = vec![b'x'; 5 << 20];
    for fault in [
        Fault::status(500),
        Fault::status(403),
        Fault::content("application/vnd.oci.image.manifest.v1+json", "[[["),
        Fault::content("application/vnd.oci.image.manifest.v1+json", large),
    ] {
        let proxy = FaultProxy::before(scene.registry.address());
        proxy.rule(Rule::on(".sig", fault));
        let name = proxy.reference("team/app:1");
        scene.set(&scene.signed(&json!({ "type": "matchExact" })));
        let error = pull_for(&scene.place.images, &name, "").await.unwrap_err();
        assert!(!matches!(error, Error::NotAllowed { .. }), "{error}");
        scene.set(&accept());
        pull_for(&scene.place.images, &name, "").await.unwrap();
        scene.place.images.remove(&name).await.unwrap();
    }
}

#[tokio::test]
async fn a_payload_that_is_not_what_its_digest_promises_is_refused() {
    let scene = Scene::new().await;
    let signature = scene.signer.sign_image(scene.built.digest(), &scene.name());
    scene.sign(scene.built.digest(), &scene.name()).await;
    let proxy = FaultProxy::before(scene.registry.address());
    let digest = orlop_testkit::image::digest(signature.payload.as_bytes());
    proxy.rule(Rule::on(&digest, Fault::content("application/json", "{}")));
    let pulled = pull_for(&scene.place.images, &proxy.reference("team/app:1"), "").await;
    let error = pulled.unwrap_err();
    assert!(matches!(error, Error::DigestMismatch { .. }), "{error}");
}

#[tokio::test]
async fn a_mirror_does_not_change_what_must_be_signed() {
    let scene = Scene::new().await;
    let certs = scene.policies.join("certs.d/registry.example");
    std::fs::create_dir_all(&certs).unwrap();
    let mirror = format!(
        "server = \"http://127.0.0.1:1\"\n[host.\"http://{}\"]\ncapabilities = [\"pull\", \"resolve\"]\n",
        scene.registry.host()
    );
    std::fs::write(certs.join("hosts.toml"), mirror).unwrap();
    let place = Place::with(|config| {
        config.policies.clone_from(&scene.place.config.policies);
        config.registry_dirs = vec![scene.policies.join("certs.d")];
        config.retries = 0;
    })
    .await;
    let name = "registry.example/team/app:1";
    scene.sign(scene.built.digest(), &scene.name()).await;
    let pulled = pull_for(&place.images, name, "").await;
    assert_refused(pulled, "not for registry.example/team/app:1");
    scene.sign(scene.built.digest(), name).await;
    pull_for(&place.images, name, "").await.unwrap();
}

#[tokio::test]
async fn a_verdict_tells_rule_key_and_reason() {
    let scene = Scene::new().await;
    let request = || PullRequest {
        reference: scene.name(),
        ..PullRequest::default()
    };
    let verdict = scene
        .place
        .images
        .judge_pull(request())
        .await
        .unwrap()
        .unwrap();
    assert!(!verdict.is_allowed());
    assert_eq!(verdict.place, "default");
    scene.sign(scene.built.digest(), &scene.name()).await;
    let verdict = scene
        .place
        .images
        .judge_pull(request())
        .await
        .unwrap()
        .unwrap();
    assert!(verdict.is_allowed());
    let key = scene.signer.public_key().display().to_string();
    assert!(verdict.requirements[0].reason.contains(&key), "{verdict:?}");
    assert_eq!(scene.place.layer_dirs(), 0);
    let open = Place::open().await;
    assert_eq!(open.images.judge_pull(request()).await.unwrap(), None);
}
