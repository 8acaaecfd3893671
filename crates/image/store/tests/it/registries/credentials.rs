//! Whose credentials are shown to whom.

use std::path::PathBuf;

use orlop_image_store::{Credentials, Error, NamespaceCredentials, PolicyFor, PullRequest};
use orlop_testkit::image::host_architecture;
use orlop_testkit::proxy::Door;
use orlop_testkit::{Fault, Login, Rule, assert_contains};

use serde_json::json;

use super::scene::Scene;

/// A scene whose doors want a login, with a directory for namespaces and a file for the node.
async fn guarded(doors: usize) -> Scene {
    let scene = Scene::with(doors, |config, scratch| {
        config.namespace_credentials = NamespaceCredentials {
            dir: Some(scratch.subdir("namespaces")),
        };
        config.credential_files = vec![scratch.path("auth.json")];
    })
    .await;
    for (number, door) in scene.doors.iter().enumerate() {
        door.guard(Door::Basic(Login::new(&format!("user{number}"), "secret")));
    }
    scene
}

/// A file of credentials, one user for each key.
fn auths(entries: &[(&str, &str)]) -> String {
    let entries = entries.iter().map(|(key, user)| {
        format!("{key:?}: {{\"username\": {user:?}, \"password\": \"secret\"}}")
    });
    format!(
        "{{\"auths\": {{{}}}}}",
        entries.collect::<Vec<_>>().join(", ")
    )
}

fn users(scene: &Scene, door: usize) -> Vec<String> {
    let mut users = Vec::new();
    for seen in scene.doors[door].seen() {
        let shown = seen.headers.get("authorization");
        let shown = shown.map(|it| it.to_str().unwrap().to_owned());
        let user = ["user0", "user1", "node", "other"]
            .into_iter()
            .find(|user| shown.as_deref() == Some(Login::new(user, "secret").basic().as_str()));
        let user = user.map_or_else(|| shown.unwrap_or_default(), str::to_owned);
        if !user.is_empty() && !users.contains(&user) {
            users.push(user);
        }
    }
    users
}

#[tokio::test]
async fn what_comes_with_the_request_is_before_the_namespace_s_and_that_before_the_node_s() {
    let scene = guarded(1).await;
    scene.file("auth.json", &auths(&[("@0", "node")]));
    let request = |user: &str, namespace: &str| PullRequest {
        reference: scene.with_addresses("@0/team/app:1"),
        auth: Some(Credentials {
            username: user.to_owned(),
            password: "secret".to_owned(),
            ..Credentials::default()
        })
        .filter(|_| !user.is_empty()),
        policy: PolicyFor::Namespace(namespace.to_owned()),
        ..PullRequest::default()
    };
    let team: PathBuf = scene.file("namespaces/team.json", &auths(&[("@0/team", "user0")]));
    for (user, namespace, shown, good) in [
        ("", "", "node", false),
        ("", "stranger", "node", false),
        ("", "team", "user0", true),
        ("other", "team", "other", false),
        ("user0", "stranger", "user0", true),
    ] {
        scene.forget().await;
        let pulled = scene.place.images.pull(request(user, namespace)).await;
        assert_eq!(users(&scene, 0), [shown], "{user} {namespace}");
        assert_eq!(pulled.is_ok(), good, "{user} {namespace}: {pulled:?}");
    }
    // An entry for another repository is none for this one: the node's is next.
    std::fs::write(
        &team,
        scene.with_addresses(&auths(&[("@0/teams", "user0")])),
    )
    .unwrap();
    scene.forget().await;
    scene.pull_for("@0/team/app:1", "team").await.unwrap_err();
    assert_eq!(users(&scene, 0), ["node"]);
    // A file that can't be read is not the same as none.
    std::fs::write(&team, "secret").unwrap();
    let error = scene.pull_for("@0/team/app:1", "team").await.unwrap_err();
    assert!(error.to_string().contains("team.json"), "{error}");
    assert!(!error.to_string().contains("secret"), "{error}");
}

#[tokio::test]
async fn a_pull_at_the_same_time_opens_nothing_to_another_namespace() {
    let scene = guarded(1).await;
    scene.file("namespaces/team.json", &auths(&[("@0", "user0")]));
    // Long enough for the other to join, if it could.
    scene.doors[0].rule(Rule::on(
        "blobs/",
        Fault::Slow {
            bytes_per_second: 400,
        },
    ));
    let (team, other) = tokio::join!(
        scene.pull_for("@0/app:1", "team"),
        scene.pull_for("@0/app:1", "other"),
    );
    team.unwrap();
    let error = other.unwrap_err();
    assert!(matches!(error, Error::Unauthenticated { .. }), "{error}");
}

#[tokio::test]
async fn what_is_here_opens_nothing_to_another_namespace() {
    let scene = guarded(1).await;
    scene.file("namespaces/team.json", &auths(&[("@0", "user0")]));
    let by_digest = format!("@0/app@{}", scene.built.digest());
    for name in ["@0/app:1", &by_digest] {
        scene.pull_for(name, "team").await.unwrap();
        let error = scene.pull_for(name, "other").await.unwrap_err();
        assert!(matches!(error, Error::Unauthenticated { .. }), "{error}");
        let error = scene.pull(name).await.unwrap_err();
        assert!(matches!(error, Error::Unauthenticated { .. }), "{error}");
    }
    // Nor does a name lead out of the directory.
    let error = scene.pull_for("@0/app:1", "../namespaces/team").await;
    assert!(
        error
            .unwrap_err()
            .to_string()
            .contains("is not a valid namespace name")
    );
}

#[tokio::test]
async fn mirrors_are_shown_their_own_credentials_alone() {
    let scene = guarded(2).await;
    scene.write(
        "[[registry]]\nprefix = \"app.example\"\nlocation = \"@0\"\n\
         [[registry.mirror]]\nlocation = \"@1/m\"\n",
    );
    let request = || PullRequest {
        reference: "app.example/team/app:1".to_owned(),
        auth: Some(Credentials {
            username: "user0".to_owned(),
            password: "secret".to_owned(),
            ..Credentials::default()
        }),
        ..PullRequest::default()
    };
    scene.place.images.pull(request()).await.unwrap();
    assert_eq!(users(&scene, 1), [""; 0]);
    assert_eq!(users(&scene, 0), ["user0"]);
    scene.file(
        "auth.json",
        &auths(&[("@1/team", "other"), ("@1/m/team", "user1")]),
    );
    scene.forget().await;
    scene.place.images.pull(request()).await.unwrap();
    assert_eq!(users(&scene, 1), ["user1"]);
    assert_eq!(users(&scene, 0), [""; 0]);
    let explained = scene
        .place
        .images
        .explain("app.example/team/app:1", "")
        .await
        .unwrap();
    let sources: Vec<_> = explained.names[0]
        .hosts
        .iter()
        .map(|host| host.credentials.clone())
        .collect();
    let [Some(mirror), None] = &sources[..] else {
        panic!("{sources:?}");
    };
    assert_contains!(mirror, "auth.json", "/m/team");
    assert!(!format!("{explained:?}").contains("secret"));
}

#[tokio::test]
async fn what_names_another_s_digests_has_to_be_served_itself() {
    let scene = guarded(2).await;
    scene.file("namespaces/team.json", &auths(&[("@0", "user0")]));
    scene.file("namespaces/other.json", &auths(&[("@1", "user1")]));
    scene.pull_for("@0/app:1", "team").await.unwrap();
    // An index of the other's, who has seen the digest somewhere, in a repository without the image.
    let kind = "application/vnd.oci.image.index.v1+json";
    let mut entry = scene.built.top.descriptor();
    entry["platform"] = json!({ "os": "linux", "architecture": host_architecture() });
    let index = json!({ "schemaVersion": 2, "mediaType": kind, "manifests": [entry] });
    let content = Fault::content(kind, index.to_string().into_bytes());
    scene.doors[1].rule(Rule::on("nothing/manifests/1", content));
    let error = scene.pull_for("@1/nothing:1", "other").await.unwrap_err();
    assert!(matches!(error, Error::NotInRegistry { .. }), "{error}");
}

#[tokio::test]
async fn credentials_for_a_short_name_s_own_registry_are_shown_to_no_other() {
    let scene = guarded(1).await;
    scene.write("unqualified-search-registries = [\"@0\"]\nshort-name-mode = \"permissive\"\n");
    for (address, shown) in [("", None), ("@0", Some("user0"))] {
        let request = PullRequest {
            reference: "app:1".to_owned(),
            auth: Some(Credentials {
                username: "user0".to_owned(),
                password: "secret".to_owned(),
                server_address: scene.with_addresses(address),
                ..Credentials::default()
            }),
            ..PullRequest::default()
        };
        let pulled = scene.place.images.pull(request).await;
        assert_eq!(users(&scene, 0), shown.as_slice(), "{address:?}");
        assert_eq!(pulled.is_ok(), shown.is_some(), "{address:?}: {pulled:?}");
    }
}
