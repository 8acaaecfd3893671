//! Pods with a user namespace of their own.

use std::fs;
use std::os::unix::fs::MetadataExt;

use orlop_kuberuntime::manager::Shutdown;
use orlop_testkit::Node;
use serde_json::{Value, json};

use crate::world::{World, container, world};

/// The first of the node's ids that a process' root is, and how many ids it has.
fn map(text: &str) -> (u32, u32) {
    let numbers: Vec<u32> = text
        .split_whitespace()
        .map(|n| n.parse().unwrap())
        .collect();
    let [0, first, length] = numbers[..] else {
        panic!("{text:?} maps no root");
    };
    (first, length)
}

/// Whether the runtime's handler can do it.
async fn is_able(world: &World) -> bool {
    let status = world.manager.runtime().status(false).await.unwrap();
    status
        .runtime_handlers
        .iter()
        .any(|it| it.name.is_empty() && it.features.is_some_and(|it| it.user_namespaces))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runtime_without_user_namespaces_is_told_of() {
    orlop_testkit::skip_unless!(orlop_testkit::machine::can_run_pods());
    orlop_testkit::skip_unless!(orlop_testkit::machine::has_program("runc"));
    let world = World::on(Node::any().runtime("runc"), |_| {}).await;
    if is_able(&world).await {
        world.finish().await;
        orlop_testkit::skip!("this runc has user namespaces");
    }
    let spec = json!({"hostUsers": false, "containers": [world.idle("main")]});
    let uid = world.run("own", spec);
    world.event(&uid, "FailedCreatePodSandBox -").await;
    let story = world.story(&uid);
    assert!(
        story.contains(
            "can't set `spec.hostUsers: false`, runtime does not support user namespaces"
        ),
        "{story}"
    );
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_has_users_of_its_own() {
    orlop_testkit::skip_unless!(orlop_testkit::machine::can_run_pods());
    let node = match orlop_testkit::machine::runtime_with_users() {
        Ok(runtime) => Node::orlop().runtime(&runtime),
        Err(reason) => orlop_testkit::skip!("{reason}"),
    };
    let mut world = World::on(node, |_| {}).await;
    assert!(
        is_able(&world).await,
        "the runtime can, the node does not know"
    );
    let config = json!({"kind": "ConfigMap", "metadata": {"name": "config", "namespace": "test"},
                        "data": {"key": "value"}});
    let secret = json!({"kind": "Secret", "metadata": {"name": "secret", "namespace": "test"},
                        "data": {"word": "c2VzYW1l"}});
    let objects = [config, secret];
    let dir = world.dir("of-node");
    let mounted = |mut container: Value| {
        container["volumeMounts"] = json!([
            {"name": "config", "mountPath": "/config"},
            {"name": "secret", "mountPath": "/secret"},
            {"name": "scratch", "mountPath": "/scratch"},
            {"name": "scratch", "mountPath": "/part", "subPath": "deep"},
            {"name": "node", "mountPath": "/node"},
        ]);
        container
    };
    let init = mounted(world.sh("init", "cat /secret/word > /scratch/word"));
    let mut main = mounted(world.sh(
        "main",
        "echo last > /dev/termination-log; touch /node/made; until [ -e /scratch/go ]; do sleep 0.1; done; exit 3",
    ));
    main["restartPolicy"] = json!("Always");
    let spec = json!({
        "hostUsers": false,
        "securityContext": {"fsGroup": 2000},
        "initContainers": [init], "containers": [main],
        "volumes": [
            {"name": "config", "configMap": {"name": "config"}},
            {"name": "secret", "secret": {"secretName": "secret"}},
            {"name": "scratch", "emptyDir": {}},
            {"name": "node", "hostPath": {"path": dir}},
        ],
    });
    let uid = world.run_with("own", spec.clone(), &objects);
    world.ready(&uid).await;
    let (first, length) = map(&world.exec(&uid, "main", "cat /proc/self/uid_map").await);
    assert!(first >= 65536 && first % 65536 == 0, "{first}");
    assert_eq!(length, 65536);
    let groups = world.exec(&uid, "main", "cat /proc/self/gid_map").await;
    assert_eq!(map(&groups), (first, length));
    let record = world
        .manager
        .options()
        .root_dir
        .join("pods")
        .join(&uid)
        .join("userns");
    let written: Value = serde_json::from_slice(&fs::read(&record).unwrap()).unwrap();
    assert_eq!(
        written["uidMappings"],
        json!([{"hostId": first, "containerId": 0, "length": 65536}])
    );
    // Its root is root in its volumes, and nobody in the node.
    for (script, expected) in [
        ("id -u", "0"),
        ("cat /config/key", "value"),
        ("cat /scratch/word", "sesame"),
        ("stat -c %u /scratch/word", "0"),
        ("stat -c %g /scratch", "2000"),
        ("touch /part/x && stat -c %u /scratch/deep/x", "0"),
        ("grep -c own /etc/hosts", "1"),
    ] {
        assert_eq!(world.exec(&uid, "main", script).await, expected, "{script}");
    }
    assert_eq!(fs::metadata(dir.join("made")).unwrap().uid(), 0);
    let running = fs::read_dir("/proc").unwrap().flatten().filter(|entry| {
        entry
            .path()
            .join("cmdline")
            .metadata()
            .is_ok_and(|it| it.uid() == first)
    });
    assert!(
        running.count() > 0,
        "no process of the node is user {first}"
    );

    // Another pod has other ids.
    let other = world.run(
        "other",
        json!({"hostUsers": false, "containers": [world.idle("main")]}),
    );
    world.ready(&other).await;
    let (second, _) = map(&world.exec(&other, "main", "cat /proc/self/uid_map").await);
    assert_ne!(first, second);
    let none = world.run("none", json!({"containers": [world.idle("main")]}));
    world.ready(&none).await;
    let (node, all) = map(&world.exec(&none, "main", "cat /proc/self/uid_map").await);
    assert_eq!((node, all), (0, u32::MAX));

    // They stay the same over a manager's restart, and for each instance.
    world.restart_manager(|_| {}).await;
    world.run_with("own", spec, &objects);
    world.manager.sources_ready();
    world.gone(&other).await;
    world.gone(&none).await;
    world.ready(&uid).await;
    world.exec(&uid, "main", "touch /scratch/go").await;
    let view = world
        .until(&uid, "restarted", |view| {
            container(view, "main")["lastState"]["terminated"].is_object()
        })
        .await;
    let ended = &container(&view, "main")["lastState"]["terminated"];
    assert_eq!(ended["message"], "last\n", "{ended}");
    let metrics = world.manager.metrics();
    assert!(
        !metrics.contains("started_user_namespaced_pods_errors_total 1"),
        "{metrics}"
    );
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_that_cannot_be_cut_keep_a_manager_from_starting() {
    let world = world!();
    let mut options = world.manager.options().clone();
    world.manager.shutdown(Shutdown::Leave).await;
    options.user_namespaces.ids_per_pod = 1000;
    let error = orlop_kuberuntime::manager::Manager::start(options).await;
    let error = error.expect_err("a thousand is no multiple of 65536");
    assert!(error.to_string().contains("idsPerPod is 1000"), "{error}");
    world.finish().await;
}
