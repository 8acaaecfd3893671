//! Encrypted images as pods meet them: with a key of their namespace, and without.

use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use orlop_testkit::encryption::{LayerKey, LayerKeyKind, can_encrypt, encrypt};
use orlop_testkit::process::run;
use orlop_testkit::{
    ContainerSpec, ImageBuilder, Layer, Node, PodSpec, Scratch, assert_contains, skip,
};
use serde_json::Value;
use tonic::Code;

use crate::world::{World, world};

fn in_namespace(world: &World, name: &str) -> PodSpec {
    let namespace = name.to_owned();
    world.node.pod(name).with(move |config| {
        config.metadata.get_or_insert_default().namespace = namespace;
    })
}

const PASSPHRASE: &str = "the passphrase of the team";

/// Gives a key a passphrase, in a file beside it.
fn lock(key: &Path) -> PathBuf {
    let (locked, beside) = (
        key.with_extension("locked"),
        key.with_extension("pem.passphrase"),
    );
    let mut openssl = Command::new("openssl");
    openssl.args(["pkcs8", "-topk8", "-v2", "aes-256-cbc"]);
    openssl.args(["-passout", &format!("pass:{PASSPHRASE}")]);
    run(openssl.arg("-in").arg(key).arg("-out").arg(&locked));
    fs::rename(&locked, key).expect("put it in its place");
    fs::write(&beside, PASSPHRASE).expect("write");
    fs::set_permissions(&beside, fs::Permissions::from_mode(0o600)).expect("chmod");
    beside
}

#[tokio::test]
async fn only_pods_of_a_namespace_with_the_key_run_an_encrypted_image() {
    if let Err(reason) = can_encrypt() {
        skip!("{reason}");
    }
    let scratch = Scratch::new();
    let keys = scratch.subdir("keys");
    let world = world!(Node::orlop().drop_in(&format!("[images]\ndecryption_keys = {keys:?}\n")));
    let image = ImageBuilder::busybox()
        .layer(Layer::new().file("cargo", "the cargo", 0o644))
        .build();
    let layout = scratch.subdir("layout");
    image.write_oci_layout(&layout, "a.example/x:1");
    let team = keys.join("team");
    fs::DirBuilder::new()
        .mode(0o700)
        .create(&team)
        .expect("make a directory");
    let key = LayerKey::make(&team, "key", LayerKeyKind::Rsa(2048));
    let at = format!("docker://{}/secret:1", world.registry.host());
    let from = format!("oci:{}:a.example/x:1", layout.display());
    encrypt(&from, &at, &[key.recipient()]);
    fs::remove_file(&key.public).expect("remove");
    let passphrase = lock(&key.private);
    let name = format!("{}/secret:1", world.registry.host());

    let (team, others) = (in_namespace(&world, "team"), in_namespace(&world, "others"));
    let error = world.cri.pull_for(&name, &others).await.unwrap_err();
    assert_eq!(error.code(), Code::PermissionDenied, "{error}");
    assert_contains!(error.message(), "no key on this node decrypts it");
    let id = world.cri.pull_for(&name, &team).await.expect("pull");
    let info: Value =
        serde_json::from_str(&world.node.client().out(&["inspecti", &name])).expect("JSON");
    assert_eq!(info["info"]["encrypted"], true, "{info}");
    let doctor = world.doctor().await;
    assert_contains!(doctor, "all keys for encrypted images are valid (keys: 1)");

    let spec = ContainerSpec::new("main", &id).shell("cat /cargo");
    let pod_id = world.run_pod(&team).await;
    let ran = world.cri.run(&pod_id, &team, &spec).await.expect("run");
    assert_eq!(world.cri.wait_exited(&ran).await.exit_code, 0);
    let log = fs::read_to_string(team.logs().join("main.log")).expect("read the log");
    assert!(log.ends_with("the cargo\n"), "{log}");
    // What is here is not theirs, however they ask for it.
    let pod_id = world.run_pod(&others).await;
    for image in [&id, &name] {
        let spec = ContainerSpec::new("main", image).shell("cat /cargo");
        let error = world.cri.create(&pod_id, &others, &spec).await.unwrap_err();
        assert_eq!(error.code(), Code::PermissionDenied, "{error}");
        assert_contains!(error.message(), "no key on this node decrypts it");
    }
    fs::write(&passphrase, "another one of ours").expect("write");
    let error = world.cri.pull_for(&name, &team).await.unwrap_err();
    assert!(
        error.message().contains("is wrong, or the key is damaged"),
        "{error}"
    );
    let log = world.node.log();
    let pem = fs::read_to_string(&key.private).expect("read");
    let secret = pem.lines().nth(1).expect("a line");
    for secret in [secret, PASSPHRASE, "another one of ours"] {
        assert!(!log.contains(secret), "a secret is in the log");
    }
    world.finish().await;
}
