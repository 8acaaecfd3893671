//! Pods whose runtime is a shim of containerd's: runc's, which Debian's containerd brings along.
//!
//! `ORLOP_TEST_RUNTIME=containerd-shim-runc-v2` runs all other tests on it, too.

use orlop_testkit::machine::{has_program, is_cgroup_v2};
use orlop_testkit::{Node, skip_unless};

use crate::containers::wait_for;
use crate::processes::{kill, processes};
use crate::sandboxes;
use crate::world::{World, cgroup_of, world};

const SHIM: &str = "containerd-shim-runc-v2";

macro_rules! shim_world {
    () => {{
        skip_unless!(has_program(SHIM));
        world!(Node::orlop().runtime(SHIM))
    }};
}

/// The shims of a pod.
fn of_shim(pod: &str) -> Vec<i32> {
    processes(&[SHIM, "-namespace", pod])
}

#[tokio::test]
async fn a_pod_lives_in_one_shim() {
    let looks = async |world: &World, ids: [&str; 2]| {
        let command = ["ip", "-4", "address", "show", "eth0"];
        let [one, other] = ids.map(|id| world.printed(id, &command));
        assert_eq!(one.await, other.await, "they share a network");
    };
    sandboxes::hosts_a_whole_pod(shim_world!(), of_shim, looks).await;
}

#[tokio::test]
async fn a_pod_outlives_the_daemon_with_its_shim() {
    sandboxes::outlives_the_daemon(shim_world!(), of_shim).await;
}

#[tokio::test]
async fn a_shim_that_dies_takes_its_pod_along() {
    sandboxes::dies_with_its_pod(shim_world!(), of_shim).await;
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
    world.start_again().await;
    let removed = world.cri.remove_pod(&running.pod_id).await;
    removed.expect("remove the pod");
    world.finish().await;
}

#[tokio::test]
async fn a_shim_that_dies_without_the_daemon_is_missed_by_the_next() {
    sandboxes::is_missed(shim_world!(), of_shim).await;
}

#[tokio::test]
async fn a_command_that_takes_too_long_is_ended_in_the_shim() {
    sandboxes::ends_a_late_command(shim_world!()).await;
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
    sandboxes::is_tried_out(shim_world!(), SHIM).await;
}
