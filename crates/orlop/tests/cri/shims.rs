//! Pods whose runtime is a shim of containerd's: runc's, which Debian's containerd brings along.
//!
//! `ORLOP_TEST_RUNTIME=containerd-shim-runc-v2` runs all other tests on it, too.

use std::time::Duration;

use orlop_cri::v1::ContainerState;
use orlop_testkit::machine::{has_program, is_cgroup_v2};
use orlop_testkit::{Node, skip_unless};

use crate::containers::wait_for;
use crate::processes::{count, kill, processes};
use crate::sandboxes;
use crate::world::{cgroup_of, world};

const SHIM: &str = "containerd-shim-runc-v2";

macro_rules! shim_world {
    () => {{
        skip_unless!(has_program(SHIM));
        world!(Node::orlop().runtime(SHIM))
    }};
}

#[tokio::test]
async fn a_pod_lives_in_one_shim() {
    let world = shim_world!();
    let pod = world.node.pod("life").own_network();
    let pod_id = world.run_pod(&pod).await;
    let script = "trap 'echo bye; echo last >&2; exit 5' TERM; echo ready; \
                  while :; do sleep 0.05; done";
    let spec = world.container("main").shell(script).env("COLOUR", "blue");
    let id = world
        .cri
        .create(&pod_id, &pod, &spec)
        .await
        .expect("create");
    world.cri.start(&id).await.expect("start");
    let other = world.container("other").command(&["sleep", "600"]);
    let other = world.cri.run(&pod_id, &pod, &other).await.expect("run");
    assert_eq!(
        count(&[SHIM, "-namespace", &pod_id], 1).await,
        1,
        "a shim for the pod"
    );
    assert_eq!(
        count(&[SHIM, "-namespace", &id], 0).await,
        0,
        "a shim for a container"
    );

    assert_eq!(
        world.printed(&id, &["sh", "-c", "echo $COLOUR"]).await,
        "blue"
    );
    let address = |id| world.printed(id, &["ip", "-4", "address", "show", "eth0"]);
    assert_eq!(
        address(&id).await,
        address(&other).await,
        "they share a network"
    );
    let output = world
        .cri
        .exec(&id, &["sh", "-c", "echo out; echo err >&2; exit 42"])
        .await
        .expect("exec");
    assert_eq!(output.exit_code, 42);
    assert_eq!(
        (&output.stdout[..], &output.stderr[..]),
        (&b"out\n"[..], &b"err\n"[..])
    );

    world.cri.stop(&id, 20).await.expect("stop");
    let status = world.cri.wait_exited(&id).await;
    assert_eq!((status.exit_code, status.reason.as_str()), (5, "Error"));
    let log = orlop_testkit::cri::read_log(&pod.logs().join("main.log"));
    let said = |stream: &str, line: &str| {
        log.iter()
            .any(|said| said.stream == stream && said.content == line.as_bytes())
    };
    assert!(said("stdout", "bye") && said("stderr", "last"), "{log:?}");
    world.cri.remove(&id).await.expect("remove");
    assert_eq!(
        count(&[SHIM, "-namespace", &pod_id], 1).await,
        1,
        "the pod goes on"
    );
    world.cri.stop_pod(&pod_id).await.expect("stop the pod");
    assert_eq!(count(&[&pod_id], 0).await, 0, "processes of the pod");
    world.finish().await;
}

#[tokio::test]
async fn a_pod_outlives_the_daemon_with_its_shim() {
    let mut world = shim_world!();
    let script = "i=0; while :; do echo $i; i=$((i+1)); sleep 0.02; done";
    let running = world.run_script("ticking", script).await;
    let shim = processes(&[SHIM, "-namespace", &running.pod_id]);
    world.node.kill9();
    tokio::time::sleep(Duration::from_millis(300)).await;
    world.node.start_again().await;
    world.cri = world.node.cri().await;
    let status = world.cri.status(&running.id).await.expect("status");
    assert_eq!(status.state(), ContainerState::ContainerRunning);
    assert_eq!(processes(&[SHIM, "-namespace", &running.pod_id]), shim);
    assert_eq!(world.printed(&running.id, &["echo", "ahoy"]).await, "ahoy");
    let numbers: Vec<usize> = running
        .stdout()
        .lines()
        .map(|line| line.parse().expect("a number"))
        .collect();
    assert!(numbers.iter().copied().eq(0..numbers.len()), "{numbers:?}");
    world.cri.stop(&running.id, 0).await.expect("stop");
    let status = world.cri.wait_exited(&running.id).await;
    assert_eq!(status.exit_code, 137);
    world.finish().await;
}

#[tokio::test]
async fn a_shim_that_dies_takes_its_pod_along() {
    sandboxes::dies_with_its_pod(shim_world!(), |pod| processes(&[SHIM, "-namespace", pod])).await;
}

#[tokio::test]
async fn a_pod_whose_watcher_dies_is_down() {
    sandboxes::dies_with_its_pod(shim_world!(), sandboxes::watcher).await;
}

/// runc holds a container still while it kills all of it; if it is killed itself then, the container
/// is dead and called paused.
#[tokio::test]
async fn a_container_that_died_while_it_was_held_still_is_removed() {
    let mut world = shim_world!();
    let running = world.run_script("still", "exec sleep 613").await;
    let freezer = cgroup_of(
        &world,
        &running.id,
        if is_cgroup_v2() { "" } else { "freezer" },
    );
    // Tests beside this one have processes with the same words.
    let its = || std::fs::read_to_string(freezer.join("cgroup.procs")).expect("its processes");
    let process = its().trim().parse().expect("one process");
    world.node.kill9();
    kill(process);
    wait_for(|| its().is_empty()).await;
    let (file, word) = if is_cgroup_v2() {
        ("cgroup.freeze", "1")
    } else {
        ("freezer.state", "FROZEN")
    };
    std::fs::write(freezer.join(file), word).expect("hold still");
    world.node.start_again().await;
    world.cri = world.node.cri().await;
    let removed = world.cri.remove_pod(&running.pod_id).await;
    removed.expect("remove the pod");
    world.finish().await;
}

#[tokio::test]
async fn a_shim_that_dies_without_the_daemon_is_missed_by_the_next() {
    let world = shim_world!();
    sandboxes::is_missed(world, |pod| processes(&[SHIM, "-namespace", pod])).await;
}

#[tokio::test]
async fn a_command_that_takes_too_long_is_ended_in_the_shim() {
    let world = shim_world!();
    let running = world.run_script("limit", "sleep 600 & wait").await;
    let command = ["sh", "-c", "exec sleep 4321"];
    let error = world.cri.exec_within(&running.id, &command, 1).await;
    error.expect_err("takes too long");
    let mut ps = String::new();
    for _ in 0..100 {
        ps = world.printed(&running.id, &["ps", "-o", "args"]).await;
        if !ps.contains("4321") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(!ps.contains("4321"), "it goes on:\n{ps}");
    world.finish().await;
}

#[tokio::test]
async fn a_container_in_a_shim_sees_the_processes_that_it_asks_for() {
    sandboxes::shows_the_processes_that_are_asked_for(shim_world!()).await;
}

#[tokio::test]
async fn a_shim_that_does_not_work_is_named_with_its_reason() {
    sandboxes::is_named_with_its_reason("containerd-shim-broken-v2").await;
}

#[tokio::test]
async fn a_shim_is_tried_out_and_nothing_is_left_of_the_trial() {
    let world = shim_world!();
    let said = world.doctor().await;
    assert!(said.contains("test works"), "{said}");
    let state = world.node.state();
    let state = state.to_str().expect("a path");
    assert_eq!(count(&["orlop-trial-", state], 0).await, 0);
    world.finish().await;
}
