//! From the first container to the last.

use std::time::{Duration, Instant};

use orlop_kubelet_rules::phase::PodPhase;
use serde_json::json;

use crate::world::{assert_failed, assert_failed_for, container, world};

#[tokio::test(flavor = "multi_thread")]
async fn init_sidecar_and_main_come_in_order_and_go_in_reverse() {
    let world = world!();
    let dir = world.dir("order");
    let note = |name: &str| {
        let script = format!(
            "echo {name} up >> /order/log; trap 'echo {name} down >> /order/log; exit 0' TERM; while :; do sleep 0.05; done"
        );
        let mut container = world.sh(name, &script);
        container["volumeMounts"] = json!([{"name": "order", "mountPath": "/order"}]);
        container
    };
    let mut first = note("first");
    first["command"][2] = json!("echo first done >> /order/log");
    let mut sidecar = note("sidecar");
    sidecar["restartPolicy"] = json!("Always");
    let mut second_sidecar = note("second-sidecar");
    second_sidecar["restartPolicy"] = json!("Always");
    let uid = world.run(
        "ordered",
        json!({
            "initContainers": [first, sidecar, second_sidecar],
            "containers": [note("main")],
            "volumes": [{"name": "order", "hostPath": {"path": dir}}],
        }),
    );
    let view = world.ready(&uid).await;
    assert_eq!(view.phase, PodPhase::Running);
    assert_eq!(view.summary, "Running");
    assert_eq!(view.ready_containers, (3, 3));
    assert_eq!(
        container(&view, "first")["state"]["terminated"]["reason"],
        "Completed"
    );
    let log = || std::fs::read_to_string(dir.join("log")).unwrap_or_default();
    let deadline = Instant::now() + Duration::from_secs(5);
    while !log().contains("main up") && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    world.manager.remove_pod(&uid, None);
    world.gone(&uid).await;
    let lines: Vec<_> = log().lines().map(str::to_owned).collect();
    assert_eq!(
        lines,
        [
            "first done",
            "sidecar up",
            "second-sidecar up",
            "main up",
            "main down",
            "second-sidecar down",
            "sidecar down"
        ],
        "{}",
        world.story(&uid)
    );
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_is_done_is_done_and_one_that_fails_says_so() {
    let world = world!();
    let done = world.run(
        "done",
        json!({"restartPolicy": "OnFailure", "containers": [world.sh("a", "exit 0"), world.sh("b", "sleep 0.2")]}),
    );
    let failed = world.run(
        "failed",
        json!({"restartPolicy": "Never", "containers": [world.sh("a", "exit 3"), world.sh("b", "exit 0")]}),
    );
    let init_failed = world.run(
        "init-failed",
        json!({"restartPolicy": "Never", "initContainers": [world.sh("i", "exit 4")], "containers": [world.sh("a", "exit 0")]}),
    );
    let view = world.ended(&done).await;
    assert_eq!(
        (view.phase, view.summary.as_str(), view.restarts),
        (PodPhase::Succeeded, "Completed", 0)
    );
    let view = world.ended(&failed).await;
    assert_failed(&view, "Error");
    assert_eq!(container(&view, "a")["state"]["terminated"]["exitCode"], 3);
    let view = world.ended(&init_failed).await;
    assert_failed(&view, "Init:Error");
    assert!(
        container(&view, "a")["state"]["waiting"].is_object(),
        "{:#}",
        view.status
    );
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_before_the_stop_has_its_part_of_the_grace_period() {
    let world = world!();
    let dir = world.dir("hooks");
    let mut quick = world.idle("quick");
    quick["lifecycle"] = json!({
        "postStart": {"exec": {"command": ["/bin/sh", "-c", "echo post >> /hooks/log"]}},
        "preStop": {"exec": {"command": ["/bin/sh", "-c", "sleep 0.3; echo pre >> /hooks/log"]}},
    });
    quick["volumeMounts"] = json!([{"name": "hooks", "mountPath": "/hooks"}]);
    let mut slow = world.idle("slow");
    slow["lifecycle"] = json!({"preStop": {"sleep": {"seconds": 60}}});
    let volumes = json!([{"name": "hooks", "hostPath": {"path": dir}}]);
    let first = world.run("quick", json!({"containers": [quick], "volumes": volumes}));
    let second = world.run("slow", json!({"containers": [slow]}));
    world.ready(&first).await;
    world.ready(&second).await;
    assert_eq!(std::fs::read_to_string(dir.join("log")).unwrap(), "post\n");
    let begun = Instant::now();
    world.manager.remove_pod(&first, None);
    world.manager.remove_pod(&second, None);
    world.event(&second, "FailedPreStopHook slow").await;
    let took = begun.elapsed();
    assert!(
        took >= Duration::from_secs(3) && took < Duration::from_secs(5),
        "a hook of a minute within 3 s of grace took {took:?}\n{}",
        world.story(&second)
    );
    world.gone(&first).await;
    assert_eq!(
        std::fs::read_to_string(dir.join("log")).unwrap(),
        "post\npre\n"
    );
    world.gone(&second).await;
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(9), "{took:?}");
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_hook_after_the_start_kills_the_container() {
    let world = world!();
    let mut main = world.idle("main");
    main["lifecycle"] = json!({"postStart": {"exec": {"command": ["/bin/sh", "-c", "exit 7"]}}});
    let uid = world.run("hook", json!({"containers": [main]}));
    world.event(&uid, "FailedPostStartHook main").await;
    world.event(&uid, "BackOff main").await;
    let view = world.until_summary(&uid, "CrashLoopBackOff").await;
    assert!(
        container(&view, "main")["lastState"]["terminated"].is_object(),
        "{:#}",
        view.status
    );
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_is_wanted_again_while_it_ends_comes_back() {
    let world = world!();
    let spec = json!({"containers": [world.idle("main")]});
    let uid = world.run("again", spec.clone());
    let id = container(&*world.ready(&uid).await, "main")["containerID"].clone();
    world.manager.remove_pod(&uid, None);
    world.run("again", spec);
    let view = world
        .until(&uid, "back", |view| {
            view.ready && container(view, "main")["containerID"] != id
        })
        .await;
    assert_eq!(view.restarts, 0, "it is another life");
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_is_ended_from_above_with_a_reason() {
    let world = world!();
    let evicted = world.run("evicted", json!({"containers": [world.idle("main")]}));
    let late = world.run(
        "late",
        json!({"activeDeadlineSeconds": 2, "containers": [world.idle("main")]}),
    );
    world.ready(&evicted).await;
    world
        .manager
        .fail_pod(&evicted, "Evicted", "the node was low on resource", None);
    let view = world.ended(&evicted).await;
    assert_eq!(
        (view.phase, view.reason.as_str(), view.summary.as_str()),
        (PodPhase::Failed, "Evicted", "Evicted")
    );
    assert_eq!(view.status["reason"], "Evicted");
    let view = world.ended(&late).await;
    assert_failed_for(&view, "DeadlineExceeded");
    let rejected = world.input("rejected", json!({"containers": [world.idle("main")]}), &[]);
    let uid = rejected.uid().to_owned();
    world
        .manager
        .reject_pod(rejected, "OutOfcpu", "the node has no room");
    let view = world.ended(&uid).await;
    assert_failed_for(&view, "OutOfcpu");
    assert!(
        !world
            .happened(&uid)
            .iter()
            .any(|e| e.starts_with("Created"))
    );
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_is_resized_while_it_runs_and_another_joins_to_look() {
    let world = world!();
    let mut main = world.idle("main");
    main["resources"] = json!({"limits": {"cpu": "500m", "memory": "64Mi"}});
    let mut other = world.idle("other");
    other["resources"] = json!({"limits": {"cpu": "500m", "memory": "64Mi"}});
    other["resizePolicy"] = json!([{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]);
    let uid = world.run(
        "resized",
        json!({"shareProcessNamespace": true, "containers": [main, other]}),
    );
    let before = world.ready(&uid).await;
    assert_eq!(before.status["qosClass"], "Guaranteed");
    main["resources"] = json!({"limits": {"cpu": "250m", "memory": "96Mi"}});
    other["resources"] = json!({"limits": {"cpu": "250m", "memory": "96Mi"}});
    let debug = world.idle("debug");
    world.run(
        "resized",
        json!({"shareProcessNamespace": true, "containers": [main, other], "ephemeralContainers": [debug]}),
    );
    world.event(&uid, "ResizeCompleted main").await;
    let view = world
        .until(&uid, "resized", |view| {
            view.ready
                && container(view, "other")["restartCount"] == 1
                && container(view, "debug")["state"]["running"].is_object()
        })
        .await;
    assert_eq!(
        container(&view, "main")["containerID"],
        container(&before, "main")["containerID"]
    );
    assert_eq!(container(&view, "main")["restartCount"], 0);
    let limit = world
        .exec(&uid, "main", "cat /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null || cat /sys/fs/cgroup/memory.max")
        .await;
    assert_eq!(limit, (96 << 20).to_string());
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_holds_more_than_it_may_ends_its_pod() {
    let world = world!();
    let mut main = world.sh("main", "head -c 3000000 /dev/zero > /data/big; sleep 1000");
    main["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    let uid = world.run(
        "greedy",
        json!({"terminationGracePeriodSeconds": 0, "containers": [main],
               "volumes": [{"name": "data", "emptyDir": {"sizeLimit": "1Mi"}}]}),
    );
    let view = world.ended(&uid).await;
    assert_failed_for(&view, "Evicted");
    assert!(
        view.message.contains("\"data\" exceeds the limit"),
        "{}",
        view.message
    );
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_exit_code_starts_the_whole_pod_anew() {
    let world = world!();
    let dir = world.dir("anew");
    let volumes = json!([{"name": "anew", "hostPath": {"path": dir}}]);
    let mounted = |mut container: serde_json::Value| {
        container["volumeMounts"] = json!([{"name": "anew", "mountPath": "/anew"}]);
        container
    };
    let init = mounted(world.sh("init", "echo init >> /anew/log"));
    let mut main = mounted(world.sh(
        "main",
        "echo main >> /anew/log; test $(grep -c main /anew/log) = 1 && exit 9; exec sleep 1000",
    ));
    main["restartPolicy"] = json!("Never");
    main["restartPolicyRules"] =
        json!([{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [9]}}]);
    let uid = world.run(
        "anew",
        json!({"terminationGracePeriodSeconds": 0, "restartPolicy": "Never", "initContainers": [init], "containers": [main], "volumes": volumes}),
    );
    world
        .until(&uid, "started anew", |view| {
            view.ready
                && std::fs::read_to_string(dir.join("log"))
                    .unwrap_or_default()
                    .lines()
                    .count()
                    == 4
        })
        .await;
    assert_eq!(
        std::fs::read_to_string(dir.join("log")).unwrap(),
        "init\nmain\ninit\nmain\n"
    );
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_is_not_there_is_not_tried_in_a_hurry() {
    let world = world!();
    let mut main = world.idle("main");
    main["command"] = json!(["/no/such/command"]);
    let uid = world.run("wrong", json!({"containers": [main, world.idle("other")]}));
    let view = world
        .until(&uid, "half there", |view| {
            view.ready_containers == (1, 2)
                && [
                    "RunContainerError",
                    "CreateContainerError",
                    "CrashLoopBackOff",
                ]
                .contains(&view.summary.as_str())
        })
        .await;
    let said = format!("{:#}", container(&view, "main"));
    assert!(said.contains("/no/such/command"), "{said}");
    tokio::time::sleep(Duration::from_secs(4)).await;
    let tries = world
        .happened(&uid)
        .iter()
        .filter(|event| *event == "Failed main")
        .count();
    assert!(
        (1..=3).contains(&tries),
        "{tries} tries within 4 s\n{}",
        world.story(&uid)
    );
    world.finish().await;
}
