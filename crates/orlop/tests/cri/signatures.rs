//! Signature policies as kubelets and pods meet them.

use std::path::PathBuf;

use orlop_cri_api::v1::{ImageSpec, Mount};
use orlop_testkit::policy::{self, accept, assert_refused, by_id, reject};
use orlop_testkit::{
    BuiltImage, ContainerSpec, Gpg, ImageBuilder, KeyKind, Layer, Node, PodSpec, Scratch, Signer,
    machine, skip_unless,
};
use serde_json::{Value, json};
use tonic::Status;

use crate::world::{World, world};

/// A node with a policy for itself and a directory for those of namespaces.
struct Guarded {
    world: World,
    scratch: Scratch,
    signer: Signer,
}

macro_rules! guarded {
    () => {{
        let scratch = Scratch::new();
        let settings = format!("[images]\n{}", policy::settings(&scratch));
        let node = Node::orlop().drop_in(&settings);
        let world = world!(node);
        let signer = Signer::new(&scratch.subdir("keys"), "team", KeyKind::P256);
        Guarded {
            world,
            scratch,
            signer,
        }
    }};
}

impl Guarded {
    fn set(&self, file: &str, text: &str) {
        std::fs::write(self.scratch.path(file), text).expect("write a policy");
    }

    /// The node's policy: nothing but signed images of the test's registry.
    fn demand(&self, identity: &str) {
        self.set("policy.json", &self.demanding(identity).to_string());
    }

    fn demanding(&self, identity: &str) -> Value {
        policy::demanding(&self.signer, &self.world.registry.host(), identity)
    }

    /// Pushes an image that runs a shell; returns its name.
    async fn push(&self, mark: &str) -> (BuiltImage, String) {
        let image = ImageBuilder::busybox().marked(mark).build();
        let name = self.world.registry.push(&image, &format!("{mark}:1")).await;
        (image, name)
    }

    async fn sign(&self, image: &BuiltImage, name: &str) {
        policy::sign(&self.signer, &self.world.registry, image.digest(), name).await;
    }

    fn pod(&self, name: &str, namespace: &str) -> PodSpec {
        let namespace = namespace.to_owned();
        self.world.node.pod(name).with(move |config| {
            config.metadata.get_or_insert_default().namespace = namespace;
        })
    }

    /// Creates a container in a pod of a namespace, as kubelets do: by the image's id, with the
    /// name beside it.
    async fn create(&self, pod: &PodSpec, id: &str, name: &str) -> Result<String, Status> {
        let pod_id = self.world.run_pod(pod).await;
        let created = self
            .world
            .cri
            .create(&pod_id, pod, &by_id("main", id, name))
            .await;
        self.world.cri.stop_pod(&pod_id).await.expect("stop");
        self.world.cri.remove_pod(&pod_id).await.expect("remove");
        created
    }

    /// What one of orlop's own commands prints, and whether it succeeds.
    fn run(&self, line: &[&str]) -> (bool, String) {
        self.world.node.client().said(line)
    }
}

#[tokio::test]
async fn only_signed_images_are_pulled_and_run() {
    let guarded = guarded!();
    let (image, name) = guarded.push("signed").await;
    guarded.demand("matchRepoDigestOrExact");
    let cri = &guarded.world.cri;
    assert_refused(cri.pull(&name).await, "has no signature");
    assert_eq!(cri.image(&name).await.expect("status"), None);
    guarded.sign(&image, &name).await;
    let id = cri.pull(&name).await.expect("pull what is signed");
    let pod = guarded.pod("run", "default");
    let pod_id = guarded.world.run_pod(&pod).await;
    let container = cri.run(&pod_id, &pod, &by_id("main", &id, &name)).await;
    let status = cri.wait_exited(&container.expect("run it")).await;
    assert_eq!(status.exit_code, 0);
    // Pulled before the policy was.
    let busybox = cri.image(&guarded.world.busybox).await.expect("status");
    let busybox = busybox.expect("was pulled").id;
    let spec = by_id("old", &busybox, &guarded.world.busybox);
    assert_refused(cri.create(&pod_id, &pod, &spec).await, "has no signature");
    let spec = ContainerSpec::new("named", &guarded.world.busybox);
    assert_refused(cri.create(&pod_id, &pod, &spec).await, "busybox:1");
    assert_refused(
        cri.create(&pod_id, &pod, &by_id("nameless", &busybox, ""))
            .await,
        "busybox:1",
    );
    let elsewhere = by_id("elsewhere", &id, "elsewhere.example/signed:1");
    assert_refused(cri.create(&pod_id, &pod, &elsewhere).await, "(default)");
    assert_eq!(cri.containers().await.expect("list").len(), 1);
    guarded.world.finish().await;
}

#[tokio::test]
async fn what_is_signed_with_gpg_is_pulled_and_run_until_its_key_is_revoked() {
    skip_unless!(machine::has_program("gpg"));
    let guarded = guarded!();
    let (gpg, cri) = (Gpg::new(), &guarded.world.cri);
    let (image, name) = guarded.push("by-gpg").await;
    let key = gpg.make_key("team <team@a.example>", "ed25519", "sign", "never");
    let (keys, store) = (
        guarded.scratch.path("team.gpg"),
        guarded.scratch.subdir("store"),
    );
    std::fs::write(&keys, gpg.export(&key)).expect("write the key");
    let stores = format!("default-docker:\n  lookaside: file://{}\n", store.display());
    guarded.set("registries.d/store.yaml", &stores);
    let signed = json!([{ "type": "signedBy", "keyType": "GPGKeys", "keyPath": keys }]);
    guarded.set("policy.json", &json!({ "default": signed }).to_string());
    assert_refused(
        cri.pull(&name).await,
        "signed with GPG, but has no signature",
    );
    let place = format!("by-gpg@{}", image.digest().replacen(':', "=", 1));
    std::fs::create_dir(store.join(&place)).expect("make its place");
    let signature = gpg.sign_image(&key, image.digest(), &name);
    std::fs::write(store.join(place).join("signature-1"), signature).expect("write it");
    let id = cri.pull(&name).await.expect("pull what is signed");
    let pod = guarded.pod("gpg", "default");
    let created = guarded.create(&pod, &id, &name).await;
    created.expect("create a container of what is signed");
    let (allowed, told) = guarded.run(&["image", "policy", &name]);
    let reason = format!("yes signedBy: signed by {key} (team <team@a.example>) as ");
    assert!(allowed && told.contains(&reason), "{told}");
    gpg.revoke(&key);
    std::fs::write(&keys, gpg.export(&key)).expect("write the revoked key");
    let reason = format!("the key {key} (team <team@a.example>) is revoked");
    assert_refused(guarded.create(&pod, &id, &name).await, &reason);
    let (allowed, told) = guarded.run(&["image", "policy", &name]);
    assert!(!allowed && told.contains(&reason), "{told}");
    guarded.world.finish().await;
}

#[tokio::test]
async fn a_signature_for_another_tag_is_no_signature() {
    let guarded = guarded!();
    let (image, name) = guarded.push("replayed").await;
    guarded.demand("matchExact");
    guarded.sign(&image, &name).await;
    let cri = &guarded.world.cri;
    let id = cri.pull(&name).await.expect("pull what is signed");
    guarded.world.registry.push(&image, "replayed:2").await;
    let other = guarded.world.registry.reference("replayed:2");
    assert_refused(cri.pull(&other).await, "replayed:1, not for");
    let pod = guarded.pod("replay", "default");
    assert_refused(guarded.create(&pod, &id, &other).await, "not for");
    let done = guarded.create(&pod, &id, &name).await;
    done.expect("the right tag");
    guarded.world.finish().await;
}

#[tokio::test]
async fn an_id_is_not_taken_for_a_name() {
    let guarded = guarded!();
    let (_, name) = guarded.push("anonymous").await;
    let id = guarded.world.cri.pull(&name).await.expect("pull");
    let digits = id.trim_start_matches("sha256:");
    let docker =
        json!({ "default": reject(), "transports": { "docker": { "docker.io": accept() } } });
    guarded.set("policy.json", &docker.to_string());
    let pod = guarded.pod("anonymous", "default");
    let short = format!("sha256:{}", &digits[..12]);
    for told in ["", &id, digits, &short, &digits[..12]] {
        assert_refused(guarded.create(&pod, &id, told).await, "(default)");
        let (allowed, text) = guarded.run(&["image", "policy", told_or(told, &id)]);
        assert!(!allowed && text.starts_with(&name), "{told}: {text}");
    }
    let host = json!({
        "default": reject(),
        "transports": { "docker": { guarded.world.registry.host(): accept() } },
    });
    guarded.set("policy.json", &host.to_string());
    for told in ["", &id, &short] {
        let done = guarded.create(&pod, &id, told).await;
        done.expect("one of its names");
    }
    let other = "docker.io/library/anonymous:1";
    assert_refused(guarded.create(&pod, &id, other).await, "(default)");
    guarded.world.finish().await;
}

fn told_or<'t>(told: &'t str, id: &'t str) -> &'t str {
    if told.is_empty() { id } else { told }
}

#[tokio::test]
async fn a_policy_that_changes_holds_for_what_is_there_over_restarts() {
    let mut guarded = guarded!();
    let (image, name) = guarded.push("changing").await;
    let (_, unsigned) = guarded.push("unsigned").await;
    guarded.sign(&image, &name).await;
    let id = guarded.world.cri.pull(&name).await.expect("pull");
    let unsigned_id = guarded.world.cri.pull(&unsigned).await.expect("pull");
    let pod = guarded.pod("change", "default");
    let done = guarded.create(&pod, &unsigned_id, &unsigned).await;
    done.expect("any image");
    guarded.world.restart().await;
    // No restart for this one.
    guarded.demand("matchExact");
    let done = guarded.create(&pod, &id, &name).await;
    done.expect("it is signed");
    let refused = guarded.create(&pod, &unsigned_id, &unsigned).await;
    assert_refused(refused, "has no signature");
    guarded.world.restart().await;
    let done = guarded.create(&pod, &id, &name).await;
    done.expect("it is signed");
    let other = Signer::new(&guarded.scratch.subdir("keys"), "other", KeyKind::Ed25519);
    guarded.signer = other;
    guarded.demand("matchExact");
    assert_refused(
        guarded.create(&pod, &id, &name).await,
        "it is not signed with",
    );
    guarded.set(
        "policy.json",
        "{\n  \"default\": [{\"type\": \"signedBaseLayer\"}]\n}",
    );
    let place = "default[0].type: \"signedBaseLayer\" is not supported";
    assert_refused(guarded.create(&pod, &id, &name).await, place);
    assert_refused(guarded.world.cri.pull(&name).await, place);
    guarded.set("policy.json", "{\n  \"default\": [\n");
    assert_refused(
        guarded.world.cri.pull(&name).await,
        "policy.json: EOF while parsing",
    );
    guarded.world.finish().await;
}

#[tokio::test]
async fn namespaces_have_policies_of_their_own() {
    let guarded = guarded!();
    let (_, name) = guarded.push("spaces").await;
    guarded.set("policy.json", &json!({ "default": reject() }).to_string());
    guarded.set(
        "namespaces/open.json",
        &json!({ "default": accept() }).to_string(),
    );
    let strict = guarded.demanding("matchExact").to_string();
    guarded.set("namespaces/strict.json", &strict);
    let [open, closed, strict] = ["open", "closed", "strict"].map(|name| guarded.pod(name, name));
    let cri = &guarded.world.cri;
    assert_refused(cri.pull(&name).await, "policy.json (default)");
    assert_refused(cri.pull_for(&name, &closed).await, "policy.json (default)");
    assert_refused(
        cri.pull_for(&name, &strict).await,
        "strict.json (transports.docker[",
    );
    let id = cri.pull_for(&name, &open).await.expect("pull");
    let done = guarded.create(&open, &id, &name).await;
    done.expect("its own policy");
    assert_refused(
        guarded.create(&closed, &id, &name).await,
        "policy.json (default)",
    );
    assert_refused(
        guarded.create(&strict, &id, &name).await,
        "has no signature",
    );
    guarded.world.finish().await;
}

#[tokio::test]
async fn image_volumes_need_their_signatures_too() {
    let guarded = guarded!();
    let data = ImageBuilder::new()
        .layer(Layer::new().file("f", "cargo", 0o644))
        .build();
    let volume = guarded.world.image(&data, "cargo:1").await;
    let (image, name) = guarded.push("carrier").await;
    guarded.sign(&image, &name).await;
    let cri = &guarded.world.cri;
    let id = cri.pull(&name).await.expect("pull");
    guarded.demand("matchExact");
    let pod = guarded.pod("volume", "default");
    let pod_id = guarded.world.run_pod(&pod).await;
    let spec = by_id("main", &id, &name).with(|config| {
        config.mounts.push(Mount {
            container_path: "/hold".to_owned(),
            readonly: true,
            image: Some(ImageSpec {
                image: volume.clone(),
                ..ImageSpec::default()
            }),
            ..Mount::default()
        });
    });
    assert_refused(cri.create(&pod_id, &pod, &spec).await, "cargo:1");
    guarded.sign(&data, &volume).await;
    cri.pull(&volume).await.expect("pull what is signed");
    let done = cri.create(&pod_id, &pod, &spec).await;
    done.expect("all is signed");
    guarded.world.finish().await;
}

#[tokio::test]
async fn what_a_mirror_serves_is_judged_by_the_name_that_was_asked_for() {
    let guarded = guarded!();
    let (image, at_mirror) = guarded.push("mirrored").await;
    let certs: PathBuf = guarded.world.node.scratch().path("certs.d");
    let certs = certs.join("upstream.example");
    std::fs::create_dir_all(&certs).expect("make a directory");
    let hosts = format!(
        "server = \"http://127.0.0.1:1\"\n[host.\"http://{}\"]\ncapabilities = [\"pull\", \"resolve\"]\n",
        guarded.world.registry.host(),
    );
    std::fs::write(certs.join("hosts.toml"), hosts).expect("write hosts.toml");
    let policy = json!({
        "default": reject(),
        "transports": { "docker": { "*.example": [{
            "type": "sigstoreSigned",
            "keyPath": guarded.signer.public_key(),
        }] } },
    });
    guarded.set("policy.json", &policy.to_string());
    let name = "upstream.example/mirrored:1";
    guarded.sign(&image, &at_mirror).await;
    let cri = &guarded.world.cri;
    assert_refused(cri.pull(name).await, "not for upstream.example/mirrored:1");
    let signature = guarded.signer.sign_image(image.digest(), name);
    let registry = &guarded.world.registry;
    registry
        .push_signatures("mirrored", image.digest(), &[signature])
        .await;
    let id = cri.pull(name).await.expect("it is signed for its name");
    let pod = guarded.pod("mirror", "default");
    guarded.create(&pod, &id, name).await.expect("run it");
    assert_refused(guarded.create(&pod, &id, &at_mirror).await, "(default)");
    guarded.world.finish().await;
}

#[tokio::test]
async fn a_command_tells_rule_key_and_reason() {
    let guarded = guarded!();
    let (image, name) = guarded.push("judged").await;
    guarded.demand("matchExact");
    let file = guarded.scratch.path("policy.json");
    let host = guarded.world.registry.host();
    let place = format!("{} (transports.docker[{host:?}])", file.display());
    let (allowed, text) = guarded.run(&["image", "policy", &name]);
    assert!(!allowed, "{text}");
    assert!(
        text.starts_with(&format!(
            "{name} refused by {place}\n  no  sigstoreSigned: it must"
        )),
        "{text}"
    );
    guarded.sign(&image, &name).await;
    let key = guarded.signer.public_key().display().to_string();
    let yes =
        format!("{name} allowed by {place}\n  yes sigstoreSigned: signed by {key} as {name:?}");
    let (allowed, text) = guarded.run(&["image", "policy", &name]);
    assert!(allowed && text.starts_with(&yes), "{text}");
    assert_eq!(guarded.world.cri.image(&name).await.expect("status"), None);
    let id = guarded.world.cri.pull(&name).await.expect("pull");
    // What is here is not asked for again, whatever the registry has now.
    guarded
        .world
        .registry
        .push_signatures("judged", image.digest(), &[])
        .await;
    let (allowed, text) = guarded.run(&["image", "policy", &id]);
    assert!(allowed && text.starts_with(&yes), "{text}");
    let (allowed, text) = guarded.run(&["image", "policy", "--remote", &name]);
    assert!(!allowed && text.contains("has no signature"), "{text}");
    guarded.set(
        "namespaces/team.json",
        &json!({ "default": reject() }).to_string(),
    );
    let (allowed, text) = guarded.run(&["image", "policy", "-n", "team", &name]);
    assert!(
        !allowed && text.contains("team.json (default)\n  no  reject: "),
        "{text}"
    );
    guarded.set("policy.json", "{}");
    let (allowed, text) = guarded.run(&["image", "policy", &name]);
    assert!(
        !allowed && text.contains("policy.json: \"default\" is missing"),
        "{text}"
    );
    guarded.world.finish().await;
}

#[tokio::test]
async fn an_imported_image_brings_no_signatures() {
    let guarded = guarded!();
    let (image, name) = guarded.push("imported").await;
    guarded.sign(&image, &name).await;
    guarded.demand("matchExact");
    let cri = &guarded.world.cri;
    let id = cri.pull(&name).await.expect("pull");
    let archive = guarded.scratch.path("image.tar");
    let archive = archive.to_str().expect("text");
    let done = guarded.run(&["image", "export", &name, "-o", archive]);
    assert!(done.0, "{}", done.1);
    let pod = guarded.pod("import", "default");
    let done = guarded.run(&["image", "import", archive]);
    assert!(done.0, "{}", done.1);
    let done = guarded.create(&pod, &id, &name).await;
    done.expect("the image was pulled before");
    cri.remove_image(&name).await.expect("remove");
    let done = guarded.run(&["image", "import", archive]);
    assert!(done.0, "{}", done.1);
    assert_refused(guarded.create(&pod, &id, &name).await, "pull it again");
    cri.pull(&name).await.expect("pull again");
    let done = guarded.create(&pod, &id, &name).await;
    done.expect("now it is signed");
    guarded.world.finish().await;
}
