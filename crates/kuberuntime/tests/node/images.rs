//! Images that are not there, not there yet, and not for everybody.

use std::time::Duration;

use orlop_testkit::{ImageBuilder, Registry};
use serde_json::json;

use crate::world::{World, container};

#[tokio::test(flavor = "multi_thread")]
async fn a_pull_that_fails_is_tried_again_and_recovers() {
    orlop_testkit::skip_unless!(orlop_testkit::machine::can_run_pods());
    let world = World::start().await;
    let late = world.registry.reference("late:1");
    let mut main = world.idle("main");
    main["image"] = json!(late);
    let uid = world.run("late", json!({"containers": [main]}));
    let view = world
        .until(&uid, "failing", |view| view.summary == "ErrImagePull")
        .await;
    let said = container(&view, "main")["state"]["waiting"]["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(said.contains("late:1"), "{said}");
    let view = world
        .until(&uid, "backing off", |view| {
            view.summary == "ImagePullBackOff"
        })
        .await;
    assert!(
        container(&view, "main")["state"]["waiting"]["message"]
            .as_str()
            .unwrap()
            .starts_with("Back-off pulling image")
    );
    let pushed = ImageBuilder::busybox().marked("late").build();
    world.registry.push(&pushed, "late:1").await;
    world.ready(&uid).await;
    let happened = world.happened(&uid);
    for event in [
        "Pulling main",
        "Failed main",
        "BackOff main",
        "Pulled main",
        "Created main",
        "Started main",
    ] {
        assert!(
            happened.iter().any(|e| e == event),
            "{event}: {}",
            world.story(&uid)
        );
    }
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn never_and_nonsense_say_so() {
    orlop_testkit::skip_unless!(orlop_testkit::machine::can_run_pods());
    let world = World::start().await;
    let mut never = world.idle("main");
    never["image"] = json!(world.registry.reference("none:1"));
    never["imagePullPolicy"] = json!("Never");
    let first = world.run("never", json!({"containers": [never]}));
    let mut nonsense = world.idle("main");
    nonsense["image"] = json!("UPPER/Case:!");
    let second = world.run(
        "nonsense",
        json!({"containers": [nonsense, world.idle("other")]}),
    );
    world
        .until(&first, "refused", |view| {
            view.summary == "ErrImageNeverPull"
        })
        .await;
    let view = world
        .until(&second, "half there", |view| {
            view.ready_containers == (1, 2)
        })
        .await;
    assert_eq!(
        container(&view, "main")["state"]["waiting"]["reason"],
        "InvalidImageName"
    );
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pull_secret_opens_a_private_registry() {
    orlop_testkit::skip_unless!(orlop_testkit::machine::can_run_pods());
    let world = World::start().await;
    let private = Registry::start_with_login();
    let login = private.login().unwrap();
    let image = private
        .push(
            &ImageBuilder::busybox().marked("private").build(),
            "secret:1",
        )
        .await;
    let auths =
        json!({"auths": {private.host(): {"username": login.user, "password": login.password}}});
    let secret = json!({
        "kind": "Secret", "metadata": {"name": "pull", "namespace": "test"},
        "type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": auths.to_string()},
    });
    let mut main = world.idle("main");
    main["image"] = json!(image);
    let without = world.run("without", json!({"containers": [main]}));
    world
        .until(&without, "refused", |view| view.summary == "ErrImagePull")
        .await;
    world.manager.remove_pod(&without, None);
    let with = world.run_with(
        "with",
        json!({"containers": [main], "imagePullSecrets": [{"name": "pull"}]}),
        &[secret],
    );
    world.ready(&with).await;
    world.gone(&without).await;
    tokio::time::sleep(Duration::from_millis(10)).await;
    world.finish().await;
}
