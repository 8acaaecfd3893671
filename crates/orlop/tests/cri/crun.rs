//! The same on crun: what a pod's life takes of a runtime.
//!
//! `ORLOP_TEST_RUNTIME=crun` runs all other tests on it, too.

use std::time::Duration;

use orlop_cri_api::v1::{ContainerState, ExecSyncRequest};
use orlop_testkit::machine::has_program;
use orlop_testkit::{Node, skip_unless};

use crate::world::world;

macro_rules! crun_world {
    () => {{
        skip_unless!(has_program("crun"));
        world!(Node::orlop().runtime("crun"))
    }};
}

#[tokio::test]
async fn the_nodes_null_device_stays_the_nodes() {
    use std::os::unix::fs::MetadataExt as _;

    let world = crun_world!();
    let spec = world.container("main").uid(54_321).shell("cat; sleep 600");
    let running = world.run_container("null", &spec).await;
    world.printed(&running.id, &["id"]).await;
    let null = std::fs::metadata("/dev/null").expect("the node's null device");
    assert_eq!((null.uid(), null.gid()), (0, 0));
    world.finish().await;
}

#[tokio::test]
async fn a_pod_lives_on_crun() {
    let world = crun_world!();
    let pod = world.node.pod("life").own_network().shared_pid();
    let pod_id = world.run_pod(&pod).await;
    let script = "trap 'echo bye; exit 5' TERM; echo ready; while :; do sleep 0.05; done";
    let spec = world.container("main").shell(script);
    let id = world.cri.create(&pod_id, &pod, &spec).await;
    let id = id.expect("create");
    let created = world.cri.status(&id).await.expect("status");
    assert_eq!(created.state(), ContainerState::ContainerCreated);
    world.cri.start(&id).await.expect("start");
    let log = pod.logs().join("main.log");
    let logged = |word: &str| {
        let log = std::fs::read_to_string(&log).unwrap_or_default();
        log.contains(word)
    };
    while !logged("ready") {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // A second container sees the first: they share a PID namespace.
    let other = world.container("other").command(&["sleep", "600"]);
    let other = world.cri.run(&pod_id, &pod, &other).await.expect("run");
    let seen = world.printed(&other, &["ps"]).await;
    assert!(seen.contains("trap 'echo bye"), "{seen}");

    world.cri.stop(&id, 20).await.expect("stop");
    let status = world.cri.wait_exited(&id).await;
    assert_eq!((status.exit_code, status.reason.as_str()), (5, "Error"));
    assert!(logged("bye"));
    world.cri.remove(&id).await.expect("remove");
    world.cri.stop(&other, 0).await.expect("kill");
    assert_eq!(world.cri.wait_exited(&other).await.exit_code, 137);
    world.cri.stop_pod(&pod_id).await.expect("stop the pod");
    world.cri.remove_pod(&pod_id).await.expect("remove the pod");
    world.finish().await;
}

#[tokio::test]
async fn commands_run_and_time_out_on_crun() {
    let world = crun_world!();
    let running = world.run_script("exec", "sleep 600").await;
    let failed = world
        .cri
        .exec(&running.id, &["sh", "-c", "echo out; echo err >&2; exit 7"]);
    let failed = failed.await.expect("exec");
    let streams = (failed.stdout.as_slice(), failed.stderr.as_slice());
    assert_eq!(
        (failed.exit_code, streams),
        (7, (&b"out\n"[..], &b"err\n"[..]))
    );
    let missing = world.cri.exec(&running.id, &["/no/such/program"]).await;
    assert!(missing.is_err(), "{missing:?}");
    let request = ExecSyncRequest {
        container_id: running.id.clone(),
        cmd: ["sh", "-c", "sleep 4711 & sleep 4712"]
            .map(Into::into)
            .into(),
        timeout: 1,
    };
    let late = world.cri.runtime().exec_sync(request).await;
    assert_eq!(
        late.expect_err("too late").code(),
        tonic::Code::DeadlineExceeded
    );
    let left = world.printed(&running.id, &["ps"]).await;
    assert!(!left.contains("sleep 471"), "{left}");
    world.finish().await;
}

#[tokio::test]
async fn limits_hold_and_kills_for_want_of_memory_are_told_on_crun() {
    crate::containers::follows_its_limit(crun_world!()).await;
    crate::sandboxes::tells_want_of_memory(crun_world!()).await;
}

#[tokio::test]
async fn containers_of_crun_live_through_the_daemons_death() {
    let mut world = crun_world!();
    let running = world.run_script("survivor", "sleep 600").await;
    let before = world.printed(&running.id, &["cat", "/proc/1/stat"]).await;
    world.crash().await;
    let after = world.printed(&running.id, &["cat", "/proc/1/stat"]).await;
    let began = |stat: &str| stat.split(' ').nth(21).map(str::to_owned);
    assert_eq!(began(&before), began(&after));
    world.cri.stop(&running.id, 0).await.expect("stop");
    assert_eq!(world.cri.wait_exited(&running.id).await.exit_code, 137);
    world.finish().await;
}

#[tokio::test]
async fn what_cannot_run_is_told_in_crun_s_words() {
    let world = crun_world!();
    let pod = world.node.pod("bad");
    let pod_id = world.run_pod(&pod).await;
    let spec = world.container("none").command(&["/no/such/program"]);
    let error = world.cri.run(&pod_id, &pod, &spec).await;
    let error = error.expect_err("no program");
    assert!(error.message().contains("/no/such/program"), "{error}");
    world.finish().await;
}
