//! Encrypted images: opened by who has a key, and by nobody else, whatever is here already.

macro_rules! scene {
    () => {
        match can_encrypt() {
            Ok(()) => Scene::new().await,
            Err(reason) => skip!("{reason}"),
        }
    };
}

mod keys;
mod providers;

use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use orlop_image_store::{Error, ExportFormat, Image, PolicyFor, PullRequest, Result};
use orlop_testkit::encryption::LayerKeyKind::{Curve, Rsa};
use orlop_testkit::encryption::{LayerKey, can_encrypt, encrypt_layer, encrypt_with};
use orlop_testkit::{BuiltImage, ImageBuilder, Layer, Registry, Scratch, skip};

use serde_json::json;

use crate::support::{Place, content};

const CARGO: &str = "the cargo";

/// A store with a directory for keys, and a registry with an image and the same encrypted.
struct Scene {
    registry: Registry,
    place: Place,
    scratch: Scratch,
    plain: BuiltImage,
    key: LayerKey,
}

impl Scene {
    async fn new() -> Self {
        let (registry, scratch) = (Registry::start(), Scratch::new());
        let keys = scratch.subdir("keys");
        let providers = scratch.path("providers.json");
        fs::write(&providers, "{}").expect("write");
        let place = Place::with(|config| {
            config.keys.dir = Some(keys);
            config.keys.providers = Some(providers);
        })
        .await;
        let plain = ImageBuilder::new()
            .layer(Layer::new().file("base", "of all", 0o644))
            .layer(
                Layer::new()
                    .dir("hold", 0o755)
                    .file("hold/cargo", CARGO, 0o600),
            )
            .build();
        registry.push(&plain, "plain:1").await;
        let key = LayerKey::make(&scratch.subdir("made"), "node", Rsa(2048));
        let scene = Self {
            registry,
            place,
            scratch,
            plain,
            key,
        };
        scene.encrypt("secret:1", &[scene.key.recipient()]);
        scene
    }

    fn encrypt(&self, name: &str, recipients: &[String]) {
        self.encrypt_with(&[], name, recipients);
    }

    fn encrypt_with(&self, environment: &[(&str, &Path)], name: &str, recipients: &[String]) {
        let at = |name: &str| format!("docker://{}/{name}", self.registry.host());
        let dir = self.scratch.path("plain");
        if !dir.exists() {
            self.plain
                .write_oci_layout(&self.scratch.subdir("plain"), "a.example/x:1");
        }
        let from = format!("oci:{}:a.example/x:1", dir.display());
        encrypt_with(environment, &from, &at(name), recipients);
    }

    /// The directory with keys for all, or for a namespace.
    fn keys(&self, namespace: &str) -> PathBuf {
        let dir = self.scratch.path("keys").join(namespace);
        let mut make = fs::DirBuilder::new();
        make.recursive(true).mode(0o700);
        make.create(&dir).expect("make");
        dir
    }

    /// Puts a key where it opens layers for all, or for a namespace.
    fn give(&self, namespace: &str, key: &LayerKey) -> PathBuf {
        let name = key.private.file_name().expect("a name");
        let path = self.keys(namespace).join(name);
        fs::copy(&key.private, &path).expect("copy");
        path
    }

    /// The same with these bytes, which its owner alone may read.
    fn put(&self, namespace: &str, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.keys(namespace).join(name);
        fs::write(&path, bytes).expect("write");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("chmod");
        path
    }

    fn name(&self, name: &str) -> String {
        format!("{}/{name}", self.registry.host())
    }

    /// Puts a key provider in place that turns letters.
    fn turning(&self) {
        self.answer(UNWRAPS);
        let file = self.scratch.path("providers.json");
        fs::write(file, self.providers().to_string()).expect("write");
    }

    fn providers(&self) -> serde_json::Value {
        let command = json!({ "path": self.scratch.path("provider"), "args": [] });
        json!({ "key-providers": { "kit": { "cmd": command } } })
    }

    /// Has the key provider do this when it is to unwrap.
    fn answer(&self, mode: &str) {
        let program = self.scratch.path("provider");
        fs::write(&program, PROVIDER.replace("MODE", mode)).expect("write");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("chmod");
    }

    async fn pull_for(&self, namespace: &str, name: &str) -> Result<Image> {
        let request = PullRequest {
            reference: self.name(name),
            policy: PolicyFor::Namespace(namespace.to_owned()),
            ..PullRequest::default()
        };
        self.place.images.pull(request).await
    }

    async fn cargo(&self, image: &Image) -> String {
        let mount = self.place.images.mount_read_only(&image.id).await;
        content(&mount.expect("mount"), "hold/cargo")
    }

    async fn admit(&self, image: &Image, namespace: &str) -> Result<()> {
        self.place.images.admit(&image.id, None, namespace).await
    }
}

fn assert_no_key<T: std::fmt::Debug>(result: Result<T>, reason: &str) {
    let error = result.unwrap_err();
    assert!(matches!(error, Error::NoKey { .. }), "{error:?}");
    let said = error.to_string();
    assert!(
        said.starts_with("decrypting ") && said.contains(reason),
        "{said}"
    );
}

#[tokio::test]
async fn an_encrypted_image_is_for_who_has_its_key() {
    let scene = scene!();
    assert_no_key(
        scene.pull_for("", "secret:1").await,
        "no key on this node decrypts it",
    );
    assert_eq!(scene.place.layer_dirs(), 0, "nothing of it is fetched");
    let file = scene.give("", &scene.key);
    let image = scene.pull_for("", "secret:1").await.expect("pull");
    assert_eq!(scene.cargo(&image).await, CARGO);
    scene.admit(&image, "").await.expect("the key is there");
    scene.admit(&image, "any").await.expect("it is for all");

    // A key that is taken away, or replaced by another, opens nothing that is here.
    fs::remove_file(&file).expect("remove");
    assert_no_key(scene.admit(&image, "").await, "(keys tried: 0, from");
    let other = LayerKey::make(&scene.scratch.path("made"), "other", Curve("P-256"));
    scene.give("", &other);
    assert_no_key(
        scene.admit(&image, "").await,
        "it is encrypted with JWE (keys tried: 1, from",
    );
    assert_no_key(
        scene.pull_for("", "secret:1").await,
        "no key on this node decrypts it",
    );
    scene.give("", &scene.key);
    scene.admit(&image, "").await.expect("it is there again");
}

#[tokio::test]
async fn a_key_of_a_namespace_is_for_its_pods_alone() {
    let scene = scene!();
    scene.give("team", &scene.key);
    let other = LayerKey::make(&scene.scratch.path("made"), "other", Rsa(2048));
    scene.give("others", &other);
    for namespace in ["", "others", "nobody"] {
        assert_no_key(
            scene.pull_for(namespace, "secret:1").await,
            "no key on this node decrypts it",
        );
    }
    // Those who wait for the same at the same time do not share what one of them may have.
    let (theirs, ours) = tokio::join!(
        scene.pull_for("others", "secret:1"),
        scene.pull_for("team", "secret:1")
    );
    assert_no_key(theirs, "no key on this node decrypts it");
    let image = ours.expect("pull");
    scene.admit(&image, "team").await.expect("it is theirs");
    for namespace in ["", "others", "nobody"] {
        assert_no_key(
            scene.admit(&image, namespace).await,
            "no key on this node decrypts it",
        );
        assert_no_key(
            scene.pull_for(namespace, "secret:1").await,
            "no key on this node decrypts it",
        );
    }
    let error = scene.admit(&image, "../team").await.unwrap_err();
    assert!(
        error.to_string().contains("is not a valid namespace name"),
        "{error}"
    );
}

#[tokio::test]
async fn who_names_the_plain_digests_gets_no_decrypted_layer() {
    let scene = scene!();
    scene.give("team", &scene.key);
    let secret = scene.pull_for("team", "secret:1").await.expect("pull");
    let plain = scene
        .place
        .pull(&scene.name("plain:1"))
        .await
        .expect("pull");
    assert_ne!(plain.manifest, secret.manifest);
    let dirs = |image: &Image| scene.place.images.layer_dirs(&image.id).expect("layers");
    let (ours, theirs) = (dirs(&secret), dirs(&plain));
    // They are one image by their configuration, and the last pull counts.
    assert_eq!(ours.len(), 2);
    assert_eq!(ours, theirs);
    assert_eq!(scene.place.layer_dirs(), 4, "decrypted layers are apart");
}

#[tokio::test]
async fn who_encrypts_an_image_of_others_takes_it_from_nobody() {
    let scene = scene!();
    scene.give("team", &scene.key);
    let secret = scene.pull_for("team", "secret:1").await.expect("pull");
    assert_no_key(
        scene.admit(&secret, "others").await,
        "no key on this node decrypts it",
    );
    // By its configuration it is the same image.
    let plain = scene.pull_for("others", "plain:1").await.expect("pull");
    assert_eq!(plain.id, secret.id);
    let done = scene.admit(&plain, "others").await;
    done.expect("it is not secret");
    let again = scene.pull_for("team", "secret:1").await;
    let again = again.expect("pull again");
    assert_eq!((again.id, again.is_encrypted), (plain.id, false));
    assert_eq!(again.manifest, plain.manifest);
    let done = scene.admit(&plain, "others").await;
    done.expect("it still is not");
    scene.admit(&plain, "team").await.expect("nor for them");
    assert_eq!(scene.cargo(&again).await, CARGO);
    let place = &scene.place;
    let done = place.images.remove(&plain.id.to_string()).await;
    done.expect("remove");
    place.sweep().await;
    assert_eq!(place.layer_dirs(), 0);
    // What is pulled for the first time is as secret as it says.
    let secret = scene.pull_for("team", "secret:1").await.expect("pull");
    assert!(secret.is_encrypted);
    assert_no_key(
        scene.admit(&secret, "others").await,
        "no key on this node decrypts it",
    );
}

#[tokio::test]
async fn a_pull_for_guests_makes_nothing_public_that_is_here() {
    let scene = scene!();
    scene.give("team", &scene.key);
    let secret = scene.pull_for("team", "secret:1").await.expect("pull");
    // Of the same configuration, and of nothing else.
    let mut claim = scene.plain.clone();
    let mut manifest: serde_json::Value = serde_json::from_slice(&claim.top.bytes).expect("JSON");
    manifest["layers"] = json!([]);
    claim.top.bytes = manifest.to_string().into_bytes();
    claim.top.digest = orlop_testkit::image::digest(&claim.top.bytes);
    claim.layers.clear();
    scene.registry.push(&claim, "claim:1").await;
    let request = PullRequest {
        reference: scene.name("claim:1"),
        handler: "kata".to_owned(),
        ..PullRequest::default()
    };
    let pulled = scene.place.images.pull(request).await;
    let pulled = pulled.expect("nothing is unpacked");
    assert_eq!((pulled.id, pulled.manifest), (secret.id, secret.manifest));
    assert!(pulled.is_encrypted);
    assert_no_key(
        scene.admit(&pulled, "others").await,
        "no key on this node decrypts it",
    );
    scene.admit(&pulled, "team").await.expect("it is theirs");
}

#[tokio::test]
async fn the_name_of_a_decrypted_layer_opens_nothing() {
    let scene = scene!();
    scene.give("team", &scene.key);
    let secret = scene.pull_for("team", "secret:1").await.expect("pull");
    let dirs = scene
        .place
        .images
        .layer_dirs(&secret.id)
        .expect("its layers");
    let name = |dir: &PathBuf| {
        let parts = dir.components().rev();
        let mut parts = parts.filter_map(|part| part.as_os_str().to_str());
        let hex = parts.find(|part| part.len() == 64).expect("a digest");
        format!("sha256:{hex}")
    };
    // Who has seen the names says that these are the digests of archives.
    let mut claim = scene.plain.clone();
    let mut config: serde_json::Value = serde_json::from_slice(&claim.config.bytes).expect("JSON");
    config["rootfs"]["diff_ids"] = dirs.iter().rev().map(name).collect::<Vec<_>>().into();
    claim.config.bytes = config.to_string().into_bytes();
    claim.config.digest = orlop_testkit::image::digest(&claim.config.bytes);
    let mut manifest: serde_json::Value = serde_json::from_slice(&claim.top.bytes).expect("JSON");
    manifest["config"] = claim.config.descriptor();
    claim.top.bytes = manifest.to_string().into_bytes();
    claim.top.digest = orlop_testkit::image::digest(&claim.top.bytes);
    scene.registry.push(&claim, "claim:1").await;
    let error = scene.pull_for("others", "claim:1").await.unwrap_err();
    assert!(matches!(error, Error::DigestMismatch { .. }), "{error:?}");
}

#[tokio::test]
async fn who_wraps_another_key_for_the_same_bytes_gets_nothing_that_is_here() {
    let scene = scene!();
    scene.turning();
    let secret = encrypt_layer(&scene.plain, 1, "provider.kit", turned);
    scene.registry.push(&secret, "theirs:1").await;
    scene.pull_for("", "theirs:1").await.expect("pull");
    // With a key that we make up, for the blob and the configuration that everybody can see.
    let mut claim = secret.clone();
    let made_up = BASE64_STANDARD.encode([1; 32]);
    let nonce = BASE64_STANDARD.encode([9; 16]);
    let options = json!({ "symkey": made_up, "cipheroptions": { "nonce": nonce } });
    let wrapped = BASE64_STANDARD.encode(turned(options.to_string().as_bytes()));
    let mut manifest: serde_json::Value = serde_json::from_slice(&claim.top.bytes).expect("JSON");
    let annotations = &mut manifest["layers"][1]["annotations"];
    annotations["org.opencontainers.image.enc.keys.provider.kit"] = wrapped.into();
    let bytes = manifest.to_string().into_bytes();
    claim.top.digest = orlop_testkit::image::digest(&bytes);
    claim.top.bytes = bytes;
    scene.registry.push(&claim, "ours:1").await;
    let error = scene.pull_for("", "ours:1").await.unwrap_err().to_string();
    assert!(error.contains("its HMAC is wrong"), "{error}");
}

#[tokio::test]
async fn changed_bytes_of_an_encrypted_layer_are_refused() {
    let scene = scene!();
    scene.give("", &scene.key);
    let dir = scene.scratch.subdir("layout");
    let from = format!(
        "oci:{}:a.example/x:1",
        scene.scratch.path("plain").display()
    );
    encrypt_with(
        &[],
        &from,
        &format!("oci:{}:a.example/x:1", dir.display()),
        &[scene.key.recipient()],
    );
    let place = &scene.place;
    let import = async || place.import_layout(&dir).await;
    let read = |path: &Path| -> serde_json::Value {
        serde_json::from_slice(&fs::read(path).expect("read")).expect("JSON")
    };
    let blob = |digest: &serde_json::Value| {
        let digest = digest.as_str().expect("a digest");
        dir.join("blobs").join(digest.replace(':', "/"))
    };
    let index_file = dir.join("index.json");
    let index = read(&index_file);
    let manifest = read(&blob(&index["manifests"][0]["digest"]));
    // As who writes all digests anew.
    let replace = |manifest: &serde_json::Value| {
        let bytes = manifest.to_string().into_bytes();
        let digest = orlop_testkit::image::digest(&bytes);
        let mut index = index.clone();
        index["manifests"][0]["digest"] = digest.clone().into();
        index["manifests"][0]["size"] = bytes.len().into();
        fs::write(blob(&digest.into()), bytes).expect("write");
        fs::write(&index_file, index.to_string()).expect("write");
    };
    let layer = &manifest["layers"][1];
    let mut bytes = fs::read(blob(&layer["digest"])).expect("read");
    for at in [0, bytes.len() / 2, bytes.len() - 1] {
        bytes[at] ^= 1;
        let mut changed = manifest.clone();
        let digest = orlop_testkit::image::digest(&bytes);
        fs::write(blob(&digest.clone().into()), &bytes).expect("write");
        changed["layers"][1]["digest"] = digest.into();
        replace(&changed);
        let error = import().await.unwrap_err();
        assert!(error.to_string().contains("its HMAC is wrong"), "{error}");
        bytes[at] ^= 1;
    }
    // The options of the other layer, with its key.
    let mut changed = manifest.clone();
    changed["layers"][1]["annotations"] = manifest["layers"][0]["annotations"].clone();
    replace(&changed);
    let error = import().await.unwrap_err().to_string();
    assert!(error.contains("its HMAC is wrong"), "{error}");
    place.sweep().await;
    replace(&manifest);
    let images = import().await.expect("import");
    assert_eq!(scene.cargo(&images[0]).await, CARGO);
}

#[tokio::test]
async fn decrypted_layers_are_verified_repaired_and_never_exported() {
    let scene = scene!();
    scene.give("team", &scene.key);
    let image = scene.pull_for("team", "secret:1").await.expect("pull");
    let images = &scene.place.images;
    let verified = images.verify(false).await.expect("verify");
    assert_eq!(
        (verified.sound, verified.broken.len()),
        (2, 0),
        "{verified:?}"
    );
    if scene.place.config.store == orlop_image_store::StoreForm::Files {
        let dirs = images.layer_dirs(&image.id).expect("layers");
        let top = dirs
            .iter()
            .find(|dir| dir.join("hold").exists())
            .expect("the layer");
        fs::write(top.join("hold/cargo"), "another").expect("spoil it");
        let verified = images.verify(true).await.expect("verify");
        assert!(verified.broken[0].repaired, "{verified:?}");
        assert_eq!(scene.cargo(&image).await, CARGO);
    }
    let name = scene.name("secret:1");
    for format in [ExportFormat::OciLayout, ExportFormat::DockerArchive] {
        let names = [&*name];
        let error = images.export(&names, format, Vec::new()).await.unwrap_err();
        assert!(error.to_string().contains("is encrypted"), "{error}");
    }
    let mut place = scene.place;
    place.reopen().await;
    let admitted = place.images.admit(&image.id, None, "").await;
    assert_no_key(admitted, "no key on this node decrypts it");
    let done = place.images.admit(&image.id, None, "team").await;
    done.expect("theirs");
    let done = place.images.remove(&image.id.to_string()).await;
    done.expect("remove");
    place.sweep().await;
    assert_eq!(place.layer_dirs(), 0);
}

#[tokio::test]
async fn keys_that_are_no_keys_are_told_by_their_files() {
    let scene = scene!();
    let file = scene.give("", &scene.key);
    let (count, errors) = scene.place.config.keys.check();
    assert_eq!((count, errors.len()), (1, 0), "{errors:?}");
    let refused = async || {
        let error = scene.pull_for("", "secret:1").await.unwrap_err();
        assert!(matches!(error, Error::Keys { .. }), "{error:?}");
        let (_, errors) = scene.place.config.keys.check();
        assert_eq!(errors[0].to_string(), error.to_string());
        let said = error.to_string();
        assert!(said.contains(&file.display().to_string()), "{said}");
        said
    };
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).expect("chmod");
    assert!(
        refused()
            .await
            .contains("users other than its owner can read it")
    );
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("chmod");
    let ed = LayerKey::make(
        &scene.scratch.path("made"),
        "ed",
        orlop_testkit::encryption::LayerKeyKind::Ed25519,
    );
    fs::copy(&ed.private, &file).expect("copy");
    assert!(refused().await.contains("its key type is not supported"));
    fs::File::create(&file)
        .and_then(|file| file.set_len(1 << 20))
        .expect("make it long");
    assert!(refused().await.contains("65536 bytes"));
    fs::remove_file(&file).expect("remove");
    scene.give("", &scene.key);
    // Who has no keys at all is told so, and unencrypted images need none.
    scene.pull_for("", "plain:1").await.expect("pull");
    let place = Place::open().await;
    let error = place.pull(&scene.name("secret:1")).await;
    assert_no_key(error, "set images.decryption_keys");
}

/// A key provider, whose secret is to turn letters by thirteen.
const PROVIDER: &str = r#"#!/bin/sh
input=$(cat)
case $input in
*'"op":"keyunwrap"'*) ;;
*) exit 9 ;;
esac
annotation() { printf %s "$input" | sed -n 's/.*"annotation":"\([^"]*\)".*/\1/p' | base64 -d; }
MODE
"#;

const UNWRAPS: &str = r#"opened=$(annotation | tr A-Za-z N-ZA-Mn-za-m | base64 -w0)
printf '{"keyunwrapresults":{"optsdata":"%s"}}' "$opened""#;

/// Letters turned by thirteen.
fn turned(bytes: &[u8]) -> Vec<u8> {
    let turn = |byte: &u8| match byte {
        b'a'..=b'z' => (byte - b'a' + 13) % 26 + b'a',
        b'A'..=b'Z' => (byte - b'A' + 13) % 26 + b'A',
        other => *other,
    };
    bytes.iter().map(turn).collect()
}
