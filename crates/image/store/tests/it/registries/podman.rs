//! The same files mean the same to podman and skopeo: the same hosts are asked, in the same order.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Stdio;

use orlop_testkit::proxy::Door;
use orlop_testkit::{Login, Scratch, skip_unless};
use serde_json::json;
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

#[tokio::test]
async fn skopeo_shows_the_same_credentials() {
    skip_unless!(orlop_testkit::machine::has_program("skopeo"));
    let scene = Scene::with(1, |config, scratch| {
        config.credential_files = vec![scratch.path("auth.json")];
    })
    .await;
    scene.write("[[registry]]\nprefix = \"app.example\"\nlocation = \"@0/m\"\ninsecure = true\n");
    scene.doors[0].guard(Door::Basic(Login::new("nobody", "secret")));
    let keys = [
        "@0",
        "@0/m",
        "@0/m/team",
        "@0/m/team/app",
        "@0/m/te",
        "app.example",
        "@0/team",
    ];
    let mut shown = BTreeSet::new();
    // Each key alone, and each pair.
    for (first, one) in keys.iter().enumerate() {
        for (second, other) in keys.iter().enumerate().skip(first) {
            let entries: BTreeMap<_, _> = [(one, first), (other, second)]
                .into_iter()
                .map(|(key, number)| {
                    let auth = Login::new(&format!("user{number}"), "secret").basic();
                    let auth = auth.trim_start_matches("Basic ").to_owned();
                    (scene.with_addresses(key), json!({ "auth": auth }))
                })
                .collect();
            let file = scene.file("auth.json", &json!({ "auths": entries }).to_string());
            scene.forget().await;
            scene.pull("app.example/team/app:1").await.unwrap_err();
            let ours = logins(&scene);
            scene.forget().await;
            let conf = scene.conf.to_str().unwrap();
            let file = file.to_str().unwrap();
            let url = "docker://app.example/team/app:1";
            let args = [
                "--registries-conf",
                conf,
                "inspect",
                "--raw",
                "--authfile",
                file,
                url,
            ];
            assert!(!serves("skopeo", &args, &scene.conf).await);
            assert_eq!(ours, logins(&scene), "{one} {other}");
            shown.extend(ours);
        }
    }
    // Those of all keys that are for this repository, and nothing else.
    assert_eq!(shown.len(), 4, "{shown:?}");
}

/// What was shown at the door. Who has no login may show an empty one.
fn logins(scene: &Scene) -> BTreeSet<String> {
    let nobody = Login::new("", "").basic();
    let seen = scene.doors[0].seen();
    let shown = seen
        .iter()
        .filter_map(|seen| seen.headers.get("authorization"));
    let shown = shown.map(|it| it.to_str().unwrap().to_owned());
    shown.filter(|login| *login != nobody).collect()
}
