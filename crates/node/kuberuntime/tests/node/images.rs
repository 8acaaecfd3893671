//! Images that are not there, not there yet, and not for everybody.

use std::time::Duration;

use orlop_cri_api::v1;
use orlop_kubelet_rules::image::CredentialPolicy;
use orlop_testkit::{ImageBuilder, Registry, assert_contains};
use serde_json::json;

use crate::world::{LIMIT, World, container, world};

#[tokio::test(flavor = "multi_thread")]
async fn a_pull_that_fails_is_tried_again_and_recovers() {
    let world = world!();
    let late = world.registry.reference("late:1");
    let mut main = world.idle("main");
    main["image"] = json!(late);
    let uid = world.run("late", json!({"containers": [main]}));
    let view = world.until_summary(&uid, "ErrImagePull").await;
    let said = container(&view, "main")["state"]["waiting"]["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(said.contains("late:1"), "{said}");
    let view = world.until_summary(&uid, "ImagePullBackOff").await;
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
    let world = world!();
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
    world.until_summary(&first, "ErrImageNeverPull").await;
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
    let world = world!();
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
    world.until_summary(&without, "ErrImagePull").await;
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

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_a_secret_has_pulled_is_for_who_has_the_secret() {
    let mut world = world!();
    let private = Registry::start_with_login();
    let login = private.login().unwrap();
    let marked = ImageBuilder::busybox().marked("kept").build();
    let image = private.push(&marked, "kept:1").await;
    let auths =
        json!({"auths": {private.host(): {"username": login.user, "password": login.password}}});
    let secret = |name: &str| {
        json!({
            "kind": "Secret", "metadata": {"name": name, "namespace": "test"},
            "type": "kubernetes.io/dockerconfigjson",
            "stringData": {".dockerconfigjson": auths.to_string()},
        })
    };
    let spec = |world: &World, secrets: &[&str], policy: &str| {
        let mut main = world.idle("main");
        main["image"] = json!(image);
        main["imagePullPolicy"] = json!(policy);
        let secrets: Vec<_> = secrets.iter().map(|it| json!({"name": it})).collect();
        json!({"containers": [main], "imagePullSecrets": secrets})
    };
    let own = world.run_with(
        "own",
        spec(&world, &["pull"], "IfNotPresent"),
        &[secret("pull")],
    );
    world.ready(&own).await;
    for again in [false, true] {
        if again {
            // By what was written down, too.
            world.restart_manager(|_| {}).await;
            let own = spec(&world, &["pull"], "IfNotPresent");
            world.run_with("own", own, &[secret("pull")]);
            world.manager.sources_ready();
        }
        let name = |kind: &str| format!("{kind}-{again}");
        let without = world.run(&name("without"), spec(&world, &[], "IfNotPresent"));
        world.until_summary(&without, "ErrImagePull").await;
        let never = world.run(&name("never"), spec(&world, &[], "Never"));
        world.until_summary(&never, "ErrImageNeverPull").await;
        let other = spec(&world, &["other"], "Never");
        let other = world.run_with(&name("other"), other, &[secret("other")]);
        world.ready(&other).await;
        for uid in [without, never, other] {
            world.manager.remove_pod(&uid, None);
            world.gone(&uid).await;
        }
    }
    world
        .restart_manager(|options| {
            options.images.credential_policy = CredentialPolicy::NeverVerify;
        })
        .await;
    let free = world.run("free", spec(&world, &[], "Never"));
    world.ready(&free).await;
    world.manager.sources_ready();
    world.gone(&own).await;
    let metrics = world.manager.metrics();
    let counted =
        "kubelet_imagemanager_image_mustpull_checks_total{result=\"credentialPolicyAllowed\"} 1";
    assert!(metrics.contains(counted), "{metrics}");
    world.manager.remove_pod(&free, None);
    world.gone(&free).await;
    // What is known of an image goes with it.
    let pulled = world
        .manager
        .options()
        .root_dir
        .join("image_manager/pulled");
    assert!(std::fs::read_dir(&pulled).unwrap().count() > 0);
    world.manager.reclaim_disk().await.unwrap();
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while std::fs::read_dir(&pulled).unwrap().count() > 0 {
        assert!(std::time::Instant::now() < deadline, "records stay");
        // Records are as of a second: what was written in this one may be of a newer pull.
        tokio::time::sleep(Duration::from_millis(500)).await;
        world.manager.reclaim_disk().await.unwrap();
    }
    world.finish().await;
}

/// Busybox with a file beside it, of an image of its own.
async fn marked(world: &World, name: &str) -> String {
    let image = ImageBuilder::busybox().marked(name).build();
    world.registry.push(&image, &format!("{name}:1")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_is_a_volume_and_stays_while_it_is_mounted() {
    orlop_testkit::skip_unless!(orlop_testkit::machine::can_run_pods());
    let world = World::with(|options| {
        // A disk that is always too full: whatever is unused goes soon.
        options.images.gc.high_percent = 1;
        options.images.gc.low_percent = 0;
        // Long enough for a pulled image to come into use.
        options.images.gc.min_age = Duration::from_secs(5);
        options.images.gc_period = Duration::from_secs(1);
    })
    .await;
    let (mounted, spare) = (
        marked(&world, "mounted").await,
        marked(&world, "spare").await,
    );
    let images = world.manager.images();
    let is_there = async |name: &str| {
        let spec = v1::ImageSpec {
            image: name.to_owned(),
            ..v1::ImageSpec::default()
        };
        images
            .image_status(spec, false)
            .await
            .unwrap()
            .image
            .is_some()
    };
    let mut one = world.idle("main");
    one["image"] = json!(spare);
    let unused = world.run(
        "unused",
        json!({"terminationGracePeriodSeconds": 0, "containers": [one]}),
    );
    world.ready(&unused).await;
    assert!(is_there(&spare).await);
    let mounts = !world.node.is_peer();
    let uid = if mounts {
        let mut main = world.idle("main");
        main["volumeMounts"] = json!([
            {"name": "files", "mountPath": "/files"},
            {"name": "files", "mountPath": "/part", "subPath": "bin"},
        ]);
        let uid = world.run(
            "mounts",
            json!({"containers": [main], "volumes": [{"name": "files", "image": {"reference": mounted}}]}),
        );
        world.ready(&uid).await;
        for (script, expected) in [
            ("test -e /files/bin/busybox && echo yes", "yes"),
            ("test -e /part/busybox && echo yes", "yes"),
            ("touch /files/x 2>/dev/null || echo read-only", "read-only"),
        ] {
            assert_eq!(world.exec(&uid, "main", script).await, expected, "{script}");
        }
        Some(uid)
    } else {
        None
    };
    world.manager.remove_pod(&unused, None);
    world.gone(&unused).await;
    orlop_testkit::wait_until!(LIMIT, !is_there(&spare).await, "an unused image stays");
    assert!(
        !mounts || is_there(&mounted).await,
        "an image went that is mounted"
    );
    let metrics = world.manager.metrics();
    assert_contains!(
        metrics,
        "kubelet_image_garbage_collected_total{reason=\"space\"}"
    );
    if let Some(uid) = uid {
        assert_contains!(metrics, "kubelet_image_volume_mounted_succeed_total 2");
        // What cannot be had keeps the container back, and says so.
        let mut main = world.idle("main");
        main["volumeMounts"] = json!([{"name": "files", "mountPath": "/files"}]);
        let missing = world.registry.reference("missing:1");
        let bad = world.run(
            "bad",
            json!({"containers": [main], "volumes": [{"name": "files", "image": {"reference": missing}}]}),
        );
        world
            .until(&bad, "kept back", |view| {
                view.status.to_string().contains("missing:1") && !view.ready
            })
            .await;
        world.exec(&uid, "main", "test -e /files/bin/busybox").await;
    }
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pulls_go_one_by_one_or_as_many_at_once_as_the_node_allows() {
    orlop_testkit::skip_unless!(orlop_testkit::machine::can_run_pods());
    for (at_once, expected) in [(None, 1), (Some(2), 2)] {
        let mut world = World::with(|options| {
            options.images.serialize_pulls = at_once.is_none();
            options.images.max_parallel_pulls = at_once;
        })
        .await;
        let mut uids = Vec::new();
        let mut images = Vec::new();
        for name in ["one", "two", "three"] {
            images.push(marked(&world, name).await);
        }
        // What is begun does not end until the registry moves again.
        world.registry.freeze();
        for (name, image) in ["one", "two", "three"].iter().zip(&images) {
            let mut main = world.idle("main");
            main["image"] = json!(image);
            uids.push(world.run(name, json!({"containers": [main]})));
        }
        let begun = || {
            let happened = uids.iter().flat_map(|uid| world.happened(uid));
            happened.filter(|event| event == "Pulling main").count()
        };
        orlop_testkit::wait_until!(LIMIT, begun() >= expected, "{} pulls began", begun());
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(begun(), expected, "at once, with {at_once:?}");
        world.registry.thaw();
        for uid in &uids {
            world.ready(uid).await;
        }
        world.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_of_the_node_knows_the_credentials() {
    use std::os::unix::fs::PermissionsExt;
    orlop_testkit::skip_unless!(orlop_testkit::machine::can_run_pods());
    let private = Registry::start_with_login();
    let login = private.login().unwrap();
    let host = private.host();
    let programs = tempfile::tempdir().unwrap();
    let (asked, config) = (
        programs.path().join("asked"),
        programs.path().join("config.yaml"),
    );
    let answer = json!({
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1", "kind": "CredentialProviderResponse",
        "cacheKeyType": "Registry", "cacheDuration": "1h",
        "auth": {host.clone(): {"username": login.user, "password": login.password}},
    });
    let program = programs.path().join("helper");
    let script = format!(
        "#!/bin/sh\ncat >> {asked}; echo >> {asked}\ncat <<'END'\n{answer}\nEND\n",
        asked = asked.display()
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let text = format!(
        "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n\
         - name: helper\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n  \
         matchImages: ['{host}']\n  defaultCacheDuration: 1m\n"
    );
    std::fs::write(&config, text).unwrap();
    let dir = programs.path().to_owned();
    let world = World::with(|options| {
        options.images.credential_provider_config = Some(config);
        options.images.credential_provider_bin_dir = Some(dir);
    })
    .await;
    for name in ["first", "second"] {
        let image = ImageBuilder::busybox().marked(name).build();
        let image = private.push(&image, &format!("{name}:1")).await;
        let mut main = world.idle("main");
        main["image"] = json!(image);
        let uid = world.run(name, json!({"containers": [main]}));
        world.ready(&uid).await;
    }
    let asked = std::fs::read_to_string(asked).unwrap();
    assert_eq!(
        asked.lines().count(),
        1,
        "asked once for a registry: {asked}"
    );
    assert_contains!(asked, "CredentialProviderRequest", "/first:1");
    world.finish().await;
}
