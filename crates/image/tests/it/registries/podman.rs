//! The same files mean the same to podman and skopeo: the same hosts are asked, in the same order.

use std::process::Stdio;

use orlop_testkit::{Scratch, skip_unless};
use tokio::process::Command;

use super::scene::Scene;

/// For their sake each place is insecure: what listens on loopback has no certificate.
const CONF: &str = r#"
    unqualified-search-registries = ["@3", "@2"]
    [[registry]]
    prefix = "app.example"
    location = "@0/m"
    insecure = true
    [[registry.mirror]]
    location = "@1"
    insecure = true
    [[registry.mirror]]
    location = "@2"
    insecure = true
    pull-from-mirror = "digest-only"
    [[registry.mirror]]
    location = "@3/m"
    insecure = true
    pull-from-mirror = "tag-only"
    [[registry]]
    prefix = "app.example/team"
    location = "@2/team"
    insecure = true
    mirror-by-digest-only = true
    [[registry.mirror]]
    location = "@1/m/team"
    insecure = true
    [[registry]]
    prefix = "*.wild.example"
    location = "@3"
    insecure = true
    [[registry]]
    location = "@2"
    insecure = true
    [[registry]]
    location = "@3"
    insecure = true
    [[registry.mirror]]
    location = "@0"
    insecure = true
    [[registry]]
    location = "blocked.example"
    blocked = true
    [aliases]
    "orlop-alias" = "app.example/app"
    "orlop-alias/team" = "app.example/team/app"
"#;

/// What asks for manifests.
async fn serves(program: &str, args: &[&str], conf: &std::path::Path) -> bool {
    let mut command = Command::new(program);
    command
        .args(args)
        .env("CONTAINERS_REGISTRIES_CONF", conf)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().await.expect("run it").success()
}

#[tokio::test]
async fn skopeo_asks_the_same_hosts_for_full_names() {
    skip_unless!(orlop_testkit::machine::has_program("skopeo"));
    let scene = Scene::new(4).await;
    scene.write(CONF);
    let digest = scene.built.digest();
    let (by_digest, in_team) = (
        format!("app.example/app@{digest}"),
        format!("app.example/team/app@{digest}"),
    );
    for name in [
        "app.example/app:1",
        &by_digest,
        "app.example/team/app:1",
        &in_team,
        "a.b.wild.example/team/app:1",
        "@2/app:1",
        "@3/team/app:1",
        "blocked.example/app:1",
    ] {
        let ours = async || scene.pull(name).await.is_ok();
        let ours = scene.sequence(ours).await;
        let url = format!("docker://{}", scene.with_addresses(name));
        let conf = scene.conf.to_str().unwrap();
        let args = ["--registries-conf", conf, "inspect", "--raw", &url];
        let theirs = async || serves("skopeo", &args, &scene.conf).await;
        let theirs = scene.sequence(theirs).await;
        assert_eq!(ours, theirs, "{name}");
        let is_blocked = name.starts_with("blocked");
        assert_eq!(ours.is_empty(), is_blocked, "{name}: {ours:?}");
    }
}

#[tokio::test]
async fn podman_asks_the_same_hosts_for_short_names() {
    skip_unless!(orlop_testkit::machine::has_program("podman"));
    skip_unless!(orlop_testkit::machine::is_root());
    let scene = Scene::new(4).await;
    for mode in ["permissive", "disabled", "enforcing"] {
        scene.write(&format!("short-name-mode = \"{mode}\"\n{CONF}"));
        for name in ["app:1", "orlop-alias:1", "orlop-alias/team:1", "team/app:1"] {
            let ours = async || scene.pull(name).await.is_ok();
            let ours = scene.sequence(ours).await;
            let theirs = async || {
                let scratch = Scratch::new();
                let (root, run) = (scratch.path("root"), scratch.path("run"));
                let (root, run) = (root.to_str().unwrap(), run.to_str().unwrap());
                let store = ["--root", root, "--runroot", run, "--storage-driver", "vfs"];
                let args = [&store[..], &["pull", "--quiet", name]].concat();
                serves("podman", &args, &scene.conf).await
            };
            let theirs = scene.sequence(theirs).await;
            assert_eq!(ours, theirs, "{mode} {name}");
            let is_refused = mode == "enforcing" && !name.contains("alias");
            assert_eq!(ours.is_empty(), is_refused, "{mode} {name}: {ours:?}");
        }
    }
}
