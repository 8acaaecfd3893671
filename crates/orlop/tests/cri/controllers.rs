//! Pods whose sandbox is made by the Sandbox service of their shim, as a virtual machine is.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use orlop_cri::v1::ContainerState;
use orlop_testkit::machine::has_program;
use orlop_testkit::{Node, skip_unless};

use crate::processes::{count, processes};
use crate::sandboxes;
use crate::world::{World, world};

const GUEST: &str = "containerd-shim-runc-v2";
const NAME: &str = "containerd-shim-kit-v2";

fn shim() -> PathBuf {
    let here = std::env::current_exe().expect("this program");
    let build = here.parent().and_then(Path::parent);
    build
        .expect("a build directory")
        .join("examples")
        .join(NAME)
}

fn shims(pod: &str) -> Vec<i32> {
    processes(&[NAME, "serve", pod])
}

macro_rules! machine_world {
    () => {{
        skip_unless!(has_program(GUEST));
        world!(Node::orlop().runtime(shim().to_str().expect("a path")))
    }};
}

/// What the shim was told of the sandbox.
fn told(world: &World, pod: &str) -> String {
    let find = std::process::Command::new("find")
        .arg(world.node.state())
        .args(["-path", &format!("*/{pod}/told")])
        .output()
        .expect("find");
    let path = String::from_utf8(find.stdout).expect("a path");
    std::fs::read_to_string(path.trim()).expect("what the shim was told")
}

#[tokio::test]
async fn a_sandbox_boots_with_its_pod() {
    let world = machine_world!();
    let pod = world.node.pod("machine").own_network();
    let begun = Instant::now();
    let pod_id = world.run_pod(&pod).await;
    assert!(begun.elapsed() > Duration::from_millis(300), "no boot");
    let said = told(&world, &pod_id);
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines[0], format!("create {pod_id}"));
    assert!(
        lines[1].starts_with("bundle /") && lines[1].ends_with(&pod_id),
        "{said}"
    );
    assert!(lines[2].starts_with("network /"), "{said}");
    let name = &pod.config().metadata.expect("metadata").name;
    assert_eq!(
        lines[3],
        format!("options runtime.v1.PodSandboxConfig {name}")
    );
    for line in [
        "annotation io.kubernetes.cri.container-type=sandbox".to_owned(),
        format!("annotation io.kubernetes.cri.sandbox-id={pod_id}"),
        format!("annotation io.kubernetes.cri.sandbox-name={name}"),
    ] {
        assert!(lines.contains(&&*line), "{line} is not in\n{said}");
    }
    assert_eq!(lines.last(), Some(&"start"));

    let spec = world.container("main").shell("echo in; sleep 600");
    let id = world.cri.run(&pod_id, &pod, &spec).await.expect("run");
    assert_eq!(told(&world, &pod_id), said, "one sandbox for all");
    assert_eq!(world.printed(&id, &["echo", "ahoy"]).await, "ahoy");
    let other = world.container("other").shell("exit 7");
    let other = world.cri.run(&pod_id, &pod, &other).await.expect("run");
    assert_eq!(world.cri.wait_exited(&other).await.exit_code, 7);
    assert_eq!(shims(&pod_id).len(), 1);
    world.cri.stop_pod(&pod_id).await.expect("stop the pod");
    let status = world.cri.status(&id).await.expect("status");
    assert_eq!(status.state(), ContainerState::ContainerExited);
    assert_eq!(count(&[&pod_id], 0).await, 0, "processes of the pod");
    world.finish().await;
}

#[tokio::test]
async fn a_shim_that_dies_takes_its_pod_along() {
    sandboxes::dies_with_its_pod(machine_world!(), shims).await;
}

#[tokio::test]
async fn a_guest_that_dies_takes_its_pod_along() {
    let guests = |pod: &str| processes(&[GUEST, "-namespace", pod]);
    sandboxes::dies_with_its_pod(machine_world!(), guests).await;
}

#[tokio::test]
async fn a_shim_that_dies_without_the_daemon_is_missed_by_the_next() {
    sandboxes::is_missed(machine_world!(), shims).await;
}

#[tokio::test]
async fn a_shim_without_that_service_is_named() {
    skip_unless!(has_program(GUEST));
    let drop_in = "[runtimes.test]\nsandboxer = \"shim\"\n";
    let world = world!(Node::orlop().runtime(GUEST).drop_in(drop_in));
    let error = world.cri.run_pod(&world.node.pod("refused")).await;
    let error = error.expect_err("no such service").message().to_owned();
    assert!(error.contains("CreateSandbox"), "{error}");
    assert!(world.cri.pods().await.expect("pods").is_empty());
    world.finish().await;
}
