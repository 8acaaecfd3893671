//! What those that make sandboxes are asked about them while they are there, and what becomes of the answers.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use orlop_cri_api::v1::{
    LinuxContainerResources, PodSandboxState, PodSandboxStatsRequest, PodSandboxStatusRequest,
    PodSandboxStatusResponse, UpdatePodSandboxResourcesRequest,
};
use orlop_testkit::machine::has_program;
use orlop_testkit::sandbox_facts::{CPU_NS, MEMORY};
use orlop_testkit::{Node, SandboxController, Whims, skip_unless};
use serde_json::Value;

use crate::controllers::{GUEST, bundle, called, guest_dir, remote, shim};
use crate::sandboxes;
use crate::world::{World, world};

async fn status(world: &World, pod: &str) -> PodSandboxStatusResponse {
    let request = PodSandboxStatusRequest {
        pod_sandbox_id: pod.to_owned(),
        verbose: true,
    };
    let answer = world.cri.runtime().pod_sandbox_status(request).await;
    answer.expect("a status").into_inner()
}

/// What is told of a pod's sandbox.
async fn sandbox(world: &World, pod: &str) -> Value {
    let answer = status(world, pod).await;
    let state = answer.status.expect("a status").state();
    assert_eq!(state, PodSandboxState::SandboxReady);
    serde_json::from_str(&answer.info["sandbox"]).expect("JSON")
}

fn machine() -> orlop_testkit::NodeBuilder {
    Node::orlop().runtime(shim().to_str().expect("a path"))
}

#[tokio::test]
async fn a_pod_tells_who_has_made_its_sandbox_and_where_it_is_served() {
    let dir = guest_dir!();
    let _controller = SandboxController::start(dir.path(), Whims::None);
    let address = SandboxController::socket(dir.path());
    let plain = world!(Node::orlop().runtime(GUEST));
    for (world, controller, at, info) in [
        (world!(machine()), "shim", None, Some("kit")),
        (
            world!(remote(dir.path())),
            "kit",
            address.to_str(),
            Some("remote"),
        ),
        (plain, "podsandbox", None, None),
    ] {
        let pod = world.run_pod(&world.node.pod("told")).await;
        let told = sandbox(&world, &pod).await;
        assert_eq!(told["controller"], controller, "{told}");
        assert_eq!(told["controllerAddress"].as_str(), at, "{told}");
        assert_eq!(told["info"]["machine"].as_str(), info, "{told}");
        assert_eq!(told["version"], 2, "{told}");
        let served = told["address"].as_str().expect("an address");
        let socket = served.strip_prefix("ttrpc+unix://").expect("a socket");
        assert!(Path::new(socket).exists(), "{told}");
        let pid = told["pid"].as_u64().expect("a process");
        assert!(Path::new(&format!("/proc/{pid}")).exists(), "{told}");
        world.cri.remove_pod(&pod).await.expect("remove the pod");
        world.finish().await;
    }
}

/// Nothing has died that anybody waits for; who is asked knows better.
async fn is_down_once_it_is_said(world: World, of: impl Fn(&World, &str) -> PathBuf) {
    let running = world.run_script("down", "sleep 600").await;
    assert_eq!(
        sandbox(&world, &running.pod_id).await["state"],
        "SANDBOX_READY"
    );
    std::fs::write(of(&world, &running.pod_id).join("down"), "").expect("a file");
    let answer = status(&world, &running.pod_id).await;
    let state = answer.status.expect("a status").state();
    assert_eq!(state, PodSandboxState::SandboxNotready);
    sandboxes::is_down_within_a_second(&world, &running.pod_id).await;
    let done = world.cri.remove_pod(&running.pod_id).await;
    done.expect("remove the pod");
    world.finish().await;
}

#[tokio::test]
async fn a_sandbox_that_its_shim_says_is_down_is_not_ready() {
    skip_unless!(has_program(GUEST));
    is_down_once_it_is_said(world!(machine()), bundle).await;
}

#[tokio::test]
async fn a_sandbox_that_its_controller_says_is_down_is_not_ready() {
    let dir = guest_dir!();
    let _controller = SandboxController::start(dir.path(), Whims::None);
    let of = |_: &World, pod: &str| dir.path().join(pod);
    is_down_once_it_is_said(world!(remote(dir.path())), of).await;
}

#[tokio::test]
async fn a_controller_that_does_not_say_how_a_sandbox_is_holds_nobody_up() {
    let dir = guest_dir!();
    let _controller = SandboxController::start(dir.path(), Whims::HangsLater);
    let world = world!(remote(dir.path()));
    let pod = world.run_pod(&world.node.pod("asked")).await;
    let begun = Instant::now();
    let told = sandbox(&world, &pod).await;
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(4), "{took:?}");
    let problem = told["problem"].as_str().unwrap_or_default();
    assert!(problem.contains("Status timed out"), "{told}");
    world.cri.remove_pod(&pod).await.expect("remove the pod");
    world.finish().await;
}

#[tokio::test]
async fn a_pod_whose_cgroup_says_nothing_uses_what_its_sandbox_tells() {
    let dir = guest_dir!();
    let _controller = SandboxController::start(dir.path(), Whims::None);
    for world in [world!(machine()), world!(remote(dir.path()))] {
        let pod = world.run_pod(&world.node.pod("used")).await;
        let request = PodSandboxStatsRequest {
            pod_sandbox_id: pod.clone(),
        };
        let answer = world.cri.runtime().pod_sandbox_stats(request).await;
        let stats = answer.expect("statistics").into_inner().stats;
        let linux = stats.expect("statistics").linux.expect("of Linux");
        let cpu = linux.cpu.and_then(|cpu| cpu.usage_core_nano_seconds);
        let memory = linux.memory.and_then(|memory| memory.usage_bytes);
        assert_eq!(cpu.map(|cpu| cpu.value), Some(CPU_NS));
        assert_eq!(memory.map(|memory| memory.value), Some(MEMORY));
        world.cri.remove_pod(&pod).await.expect("remove the pod");
        world.finish().await;
    }
}

#[tokio::test]
async fn a_sandbox_for_programs_of_another_machine_is_refused() {
    let dir = guest_dir!();
    let world = world!(called(dir.path(), "containerd-shim-foreign-v2"));
    let error = world.cri.run_pod(&world.node.pod("foreign")).await;
    let error = error.expect_err("no image runs there").message().to_owned();
    assert!(error.contains("linux/s390x"), "{error}");
    assert!(world.cri.pods().await.expect("pods").is_empty());
    world.finish().await;
}

#[tokio::test]
async fn what_a_pod_gets_from_now_on_is_told_to_its_controller() {
    let dir = guest_dir!();
    let controller = SandboxController::start(dir.path(), Whims::None);
    let world = world!(remote(dir.path()));
    let pod = world.run_pod(&world.node.pod("grows")).await;
    let request = UpdatePodSandboxResourcesRequest {
        pod_sandbox_id: pod.clone(),
        resources: Some(LinuxContainerResources {
            cpu_shares: 512,
            memory_limit_in_bytes: 256 << 20,
            ..LinuxContainerResources::default()
        }),
        ..UpdatePodSandboxResourcesRequest::default()
    };
    let mut runtime = world.cri.runtime();
    let updated = runtime.update_pod_sandbox_resources(request).await;
    updated.expect("update");
    let told = controller.told();
    let told = told.iter().find_map(|line| line.strip_prefix("Update "));
    let told = told.expect("an update");
    let said = told
        .strip_prefix("extensions updated-resources ")
        .expect("of resources");
    let said: Value = serde_json::from_str(said).expect("JSON");
    assert_eq!(said["Resources"]["memory_limit_in_bytes"], 256 << 20);
    assert_eq!(said["Resources"]["cpu_shares"], 512);
    world.cri.remove_pod(&pod).await.expect("remove the pod");
    world.finish().await;
}
