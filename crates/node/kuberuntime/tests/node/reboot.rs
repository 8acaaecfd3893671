//! The node falls and comes back.

use orlop_kuberuntime::manager::Shutdown;
use serde_json::{Value, json};

use crate::world::{World, container, world};

/// All that a pod of each kind is, by name.
fn pods(world: &World) -> Vec<(&'static str, Value)> {
    let mounts =
        json!([{"name": "disk", "mountPath": "/disk"}, {"name": "memory", "mountPath": "/memory"}]);
    let mut init = world.sh("init", "echo init >> /disk/runs");
    let mut side = world.idle("side");
    let mut main = world.sh(
        "main",
        "echo main >> /disk/runs; echo here >> /memory/runs; trap 'exit 0' TERM; while :; do sleep 0.1; done",
    );
    side["restartPolicy"] = json!("Always");
    for it in [&mut init, &mut side, &mut main] {
        it["volumeMounts"] = mounts.clone();
    }
    vec![
        (
            "always",
            json!({
                "initContainers": [init, side], "containers": [main],
                "volumes": [
                    {"name": "disk", "emptyDir": {}},
                    {"name": "memory", "emptyDir": {"medium": "Memory"}},
                ],
            }),
        ),
        (
            "never",
            json!({"restartPolicy": "Never", "containers": [world.idle("main")]}),
        ),
        (
            "done",
            json!({"restartPolicy": "Never", "containers": [world.sh("main", "exit 0")]}),
        ),
        (
            "job",
            json!({"restartPolicy": "OnFailure", "containers": [
                world.sh("first", "exit 0"), world.idle("second"),
            ]}),
        ),
    ]
}

fn want(world: &World) -> Vec<String> {
    let pods = pods(world).into_iter();
    let uids = pods.map(|(name, spec)| world.run(name, spec)).collect();
    world.manager.sources_ready();
    uids
}

fn phase(view: &orlop_kuberuntime::manager::PodView) -> String {
    view.status["phase"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_reboot_pods_are_as_their_policies_say() {
    let mut world = world!();
    let uids = want(&world);
    let [always, never, done, job] = &uids[..] else {
        unreachable!()
    };
    let before = world.ready(always).await;
    world.ready(never).await;
    world
        .until(done, "done", |view| phase(view) == "Succeeded")
        .await;
    let ended = |view: &orlop_kuberuntime::manager::PodView, name: &str| {
        container(view, name)["state"]["terminated"]["exitCode"] == 0
    };
    world
        .until(job, "half done", |view| {
            ended(view, "first") && container(view, "second")["started"] == true
        })
        .await;
    let first_job = container(&world.manager.pod(job).unwrap(), "first")["containerID"].clone();

    world.manager.shutdown(Shutdown::Leave).await;
    world.node.reboot();
    world.node.start_again().await;
    world.restart_manager(|_| {}).await;
    assert_eq!(want(&world), uids);

    let view = world
        .until(always, "started anew", |view| {
            view.ready && container(view, "main")["restartCount"] == 1
        })
        .await;
    for name in ["side", "main"] {
        let (now, then) = (container(&view, name), container(&before, name));
        assert_ne!(now["containerID"], then["containerID"], "{name}");
        assert_eq!(now["restartCount"], 1, "{name}");
    }
    // Its sandbox is a new one, its files on disk are the old ones, those in memory are not.
    let runs = world
        .exec(always, "main", "cat /disk/runs /memory/runs")
        .await;
    assert_eq!(
        runs.split_whitespace().collect::<Vec<_>>(),
        ["init", "main", "init", "main", "here"]
    );
    let logs = world.node.scratch().path("podlogs");
    assert!(
        logs.join(format!("test_always_{always}/main/1.log"))
            .exists(),
        "{view:?}"
    );

    // Who is not to run twice does not.
    let view = world
        .until(never, "failed", |view| phase(view) == "Failed")
        .await;
    assert_eq!(container(&view, "main")["restartCount"], 0, "{view:?}");
    world
        .until(done, "still done", |view| phase(view) == "Succeeded")
        .await;
    let view = world
        .until(job, "going on", |view| {
            container(view, "second")["started"] == true
                && container(view, "second")["restartCount"] == 1
        })
        .await;
    let first = container(&view, "first");
    assert_eq!(first["restartCount"], 0, "{first}");
    assert_eq!(first["containerID"], first_job, "{first}");
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runtime_that_has_forgotten_all_is_given_it_again() {
    let mut world = world!();
    let spec = json!({"containers": [world.idle("main")]});
    let uid = world.run("forgotten", spec.clone());
    world.ready(&uid).await;
    world.manager.shutdown(Shutdown::Leave).await;
    world.node.reboot();
    world.node.start_again().await;
    let cri = world.node.cri().await;
    cri.remove_all_pods().await.expect("remove all pods");
    world.restart_manager(|_| {}).await;
    world.run("forgotten", spec);
    world.manager.sources_ready();
    let view = world.ready(&uid).await;
    // The log of before is there, and tells how often it has run.
    assert_eq!(container(&view, "main")["restartCount"], 1, "{view:?}");
    world.finish().await;
}
