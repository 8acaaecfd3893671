//! What ends comes back, and what ends again and again comes back later and later.

use std::time::Duration;

use serde_json::json;

use crate::world::{World, container, world};

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_loop_waits_ten_seconds_and_then_twenty() {
    let world = world!();
    let dir = world.dir("crashes");
    let mut main = world.sh(
        "main",
        "cut -d' ' -f1 /proc/uptime >> /crashes/up; echo last words > /dev/termination-log; exit 1",
    );
    main["volumeMounts"] = json!([{"name": "crashes", "mountPath": "/crashes"}]);
    let uid = world.run(
        "crash",
        json!({"containers": [main], "volumes": [{"name": "crashes", "hostPath": {"path": dir}}]}),
    );
    let view = world.until_summary(&uid, "CrashLoopBackOff").await;
    let status = container(&view, "main");
    assert_eq!(
        status["lastState"]["terminated"]["message"], "last words\n",
        "{status:#}"
    );
    assert!(
        status["state"]["waiting"]["message"]
            .as_str()
            .unwrap()
            .starts_with("back-off 10s restarting"),
        "{status:#}"
    );
    let runs = || std::fs::read_to_string(dir.join("up")).unwrap_or_default();
    world
        .until(&uid, "started for the fourth time", |view| {
            view.restarts == 3 && runs().lines().count() == 4
        })
        .await;
    let times: Vec<f64> = runs().lines().map(|line| line.parse().unwrap()).collect();
    let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps[0] < 3.0, "the first restart is at once: {gaps:?}");
    assert!((9.5..13.0).contains(&gaps[1]), "{gaps:?}");
    assert!((19.5..24.0).contains(&gaps[2]), "{gaps:?}");
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_policy_restarts_what_it_should() {
    orlop_testkit::skip_unless!(orlop_testkit::machine::can_run_pods());
    let world = World::with(|options| options.max_restart_backoff = Duration::from_secs(1)).await;
    let script = "n=$(cat /state/n 2>/dev/null || echo 0); echo $((n+1)) > /state/n; exit $((n < 2 ? 1 : 0))";
    let mut flaky = world.sh("flaky", script);
    flaky["volumeMounts"] = json!([{"name": "state", "mountPath": "/state"}]);
    let uid = world.run(
        "on-failure",
        json!({"restartPolicy": "OnFailure", "containers": [flaky], "volumes": [{"name": "state", "emptyDir": {}}]}),
    );
    let mut ruled = world.sh(
        "ruled",
        "test -e /state/x && exit 0; touch /state/x; exit 42",
    );
    ruled["volumeMounts"] = json!([{"name": "state", "mountPath": "/state"}]);
    ruled["restartPolicy"] = json!("Never");
    ruled["restartPolicyRules"] =
        json!([{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]);
    let by_rule = world.run(
        "by-rule",
        json!({"restartPolicy": "Never", "containers": [ruled], "volumes": [{"name": "state", "emptyDir": {}}]}),
    );
    let view = world.ended(&uid).await;
    assert_eq!((view.summary.as_str(), view.restarts), ("Completed", 2));
    let view = world.ended(&by_rule).await;
    assert_eq!((view.summary.as_str(), view.restarts), ("Completed", 1));
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn last_words_come_from_the_log_if_the_manifest_says_so() {
    let world = world!();
    let mut main = world.sh("main", "echo one; echo two >&2; exit 5");
    main["terminationMessagePolicy"] = json!("FallbackToLogsOnError");
    let uid = world.run(
        "words",
        json!({"restartPolicy": "Never", "containers": [main]}),
    );
    let view = world.ended(&uid).await;
    let message = &container(&view, "main")["state"]["terminated"]["message"];
    assert!(message.as_str().unwrap().contains("one\n"), "{message}");
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_manager_and_the_runtime_come_and_go_under_a_pod() {
    let mut world = world!();
    let spec = json!({"containers": [world.idle("main")]});
    let uid = world.run("steady", spec.clone());
    let other = world.run("leaves", json!({"containers": [world.idle("main")]}));
    let before = world.ready(&uid).await;
    world.ready(&other).await;

    world.node.kill9();
    tokio::time::sleep(Duration::from_secs(2)).await;
    world.node.start_again().await;
    let new = world.run("new", json!({"containers": [world.idle("main")]}));
    world.ready(&new).await;
    let view = world.ready(&uid).await;
    assert_eq!(
        container(&view, "main")["containerID"],
        container(&before, "main")["containerID"]
    );
    assert_eq!(view.restarts, 0);

    world.restart_manager(|_| {}).await;
    let view = world.ready(&uid).await;
    assert_eq!(
        container(&view, "main")["containerID"],
        container(&before, "main")["containerID"]
    );
    assert_eq!(view.start_time, before.start_time);
    assert!(
        world.manager.pod(&other).is_some(),
        "known from its checkpoint"
    );
    world.run("steady", spec);
    world.run("new", json!({"containers": [world.idle("main")]}));
    world.manager.sources_ready();
    world.gone(&other).await;
    let view = world.ready(&uid).await;
    assert_eq!(
        container(&view, "main")["containerID"],
        container(&before, "main")["containerID"]
    );
    assert_eq!(
        world.happened(&uid),
        Vec::<String>::new(),
        "nothing happened to it"
    );
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_and_is_nobodys_ends_once_all_sources_are_read() {
    let mut world = world!();
    let mut main = world.idle("main");
    let dir = world.dir("stranger");
    main["lifecycle"] =
        json!({"preStop": {"exec": {"command": ["/bin/sh", "-c", "echo bye > /out/said"]}}});
    main["volumeMounts"] = json!([{"name": "out", "mountPath": "/out"}]);
    let uid = world.run(
        "stranger",
        json!({"containers": [main], "volumes": [{"name": "out", "hostPath": {"path": dir}}]}),
    );
    world.ready(&uid).await;
    let checkpoint = world
        .manager
        .options()
        .root_dir
        .join(format!("checkpoints/{uid}.json"));
    world
        .manager
        .shutdown(orlop_kuberuntime::manager::Shutdown::Leave)
        .await;
    std::fs::remove_file(checkpoint).unwrap();
    world.restart_manager(|_| {}).await;
    let running = || async {
        let pods = world.manager.runtime().list_pod_sandbox(None).await;
        let pods = pods.unwrap();
        pods.len()
    };
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(running().await, 1, "not before all sources are read");
    world.manager.sources_ready();
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    loop {
        let ready = world.manager.runtime().list_pod_sandbox(None).await;
        let ready = ready.unwrap();
        let ready = ready.iter().filter(|p| p.state == 0).count();
        if ready == 0 {
            break;
        }
        assert!(std::time::Instant::now() < deadline, "the stranger stays");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(std::fs::read_to_string(dir.join("said")).unwrap(), "bye\n");
    world.manager.reclaim_disk().await.unwrap();
    world.manager.reclaim_disk().await.unwrap();
    assert_eq!(running().await, 0, "removed as well");
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ends_before_the_sources_are_read_waits_for_them() {
    let mut world = world!();
    let dir = world.dir("told");
    let config = json!({"kind": "ConfigMap", "metadata": {"name": "config", "namespace": "test"},
                        "data": {"key": "value"}});
    let mut main = world.sh(
        "main",
        "until [ -e /told/go ]; do sleep 0.1; done; rm /told/go; exit 0",
    );
    main["env"] = json!([{"name": "KEY", "valueFrom": {"configMapKeyRef": {"name": "config", "key": "key"}}}]);
    main["volumeMounts"] = json!([
        {"name": "told", "mountPath": "/told"}, {"name": "config", "mountPath": "/config"}]);
    let spec = json!({"terminationGracePeriodSeconds": 0, "containers": [main], "volumes": [
        {"name": "told", "hostPath": {"path": dir}}, {"name": "config", "configMap": {"name": "config"}}]});
    let objects = [config];
    let uid = world.run_with("told", spec.clone(), &objects);
    world.ready(&uid).await;

    world.restart_manager(|_| {}).await;
    std::fs::write(dir.join("go"), "").unwrap();
    world
        .until(&uid, "ended", |view| {
            container(view, "main")["state"]["terminated"].is_object()
        })
        .await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(world.happened(&uid), Vec::<String>::new());
    world.run_with("told", spec, &objects);
    world.manager.sources_ready();
    let view = world.ready(&uid).await;
    assert_eq!(view.restarts, 1);
    let happened = world.happened(&uid);
    assert!(
        !happened.iter().any(|it| it.starts_with("Failed")),
        "{happened:?}"
    );
    assert_eq!(world.exec(&uid, "main", "cat /config/key").await, "value");
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_somebody_removed_keeps_its_count_until_it_starts_again() {
    let world = world!();
    let main = world.sh("main", "echo last words > /dev/termination-log; exit 3");
    let uid = world.run("removed", json!({"containers": [main]}));
    let view = world
        .until(&uid, "backing off after a restart", |view| {
            view.summary == "CrashLoopBackOff" && view.restarts >= 1
        })
        .await;
    let before = container(&view, "main").clone();
    let runtime = world.manager.runtime();
    let mut instances = runtime.list_containers(None).await.expect("list");
    // What is left is what counts: the newest goes last.
    instances.sort_by_key(|it| it.metadata.as_ref().map(|meta| meta.attempt));
    for instance in instances {
        let done = runtime.remove_container(&instance.id).await;
        done.expect("remove");
    }
    let view = world
        .until(&uid, "seen without it", |view| {
            container(view, "main")["containerID"].is_null()
        })
        .await;
    let gone = container(&view, "main");
    assert_eq!(gone["restartCount"], before["restartCount"], "{gone:#}");
    let ended = &gone["lastState"]["terminated"];
    assert_eq!(ended["exitCode"], 3, "{gone:#}");
    assert_eq!(ended["message"], "last words\n", "{gone:#}");
    let restarts = view.restarts;
    world
        .until(&uid, "started again with the next count", |view| {
            view.restarts == restarts + 1
        })
        .await;
    world.finish().await;
}
