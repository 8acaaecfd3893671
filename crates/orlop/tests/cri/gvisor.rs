//! Pods whose runtime keeps its containers in a sandbox that is a container itself: gVisor's runsc.
//!
//! `ORLOP_TEST_RUNTIME=runsc` runs all other tests on it, too; docs/guides/gvisor.md lists what gVisor does
//! not do.

use std::time::Duration;

use orlop_cri_api::v1::ContainerState;
use orlop_testkit::machine::has_program;
use orlop_testkit::{Node, Terminal, skip_unless};

use crate::processes::{count, kill, processes};
use crate::sandboxes as sandboxes_of_pods;
use crate::world::{World, world};

const RUNTIME: &str = "runsc";
const LIMIT: Duration = Duration::from_secs(30);
/// Its number, as capabilities(7) has it.
const CAP_SYS_ADMIN: u32 = 21;

macro_rules! gvisor_world {
    () => {{
        skip_unless!(has_program(RUNTIME));
        world!(Node::orlop().runtime(RUNTIME))
    }};
}

/// The sandbox of a pod: the process whose last word is the pod's identity.
fn sandboxes(pod: &str) -> Vec<i32> {
    processes(&["runsc-sandbox", pod])
}

#[tokio::test]
async fn the_containers_of_a_pod_live_in_one_sandbox() {
    let looks = async |world: &World, [id, _]: [&str; 2]| {
        let kernel = world.printed(id, &["dmesg"]).await;
        assert!(kernel.contains("gVisor"), "{kernel}");
    };
    sandboxes_of_pods::hosts_a_whole_pod(gvisor_world!(), sandboxes, looks).await;
}

#[tokio::test]
async fn a_sandbox_outlives_the_daemon() {
    sandboxes_of_pods::outlives_the_daemon(gvisor_world!(), sandboxes).await;
}

#[tokio::test]
async fn a_sandbox_that_dies_takes_its_pod_along() {
    sandboxes_of_pods::dies_with_its_pod(gvisor_world!(), sandboxes).await;
}

#[tokio::test]
async fn a_pod_whose_watcher_dies_is_down() {
    sandboxes_of_pods::dies_with_its_pod(gvisor_world!(), sandboxes_of_pods::watcher).await;
}

#[tokio::test]
async fn a_sandbox_that_dies_without_the_daemon_is_missed_by_the_next() {
    sandboxes_of_pods::is_missed(gvisor_world!(), sandboxes).await;
}

#[tokio::test]
async fn the_sandbox_tells_what_its_containers_use() {
    sandboxes_of_pods::tells_what_is_used(gvisor_world!()).await;
}

#[tokio::test]
async fn a_command_that_takes_too_long_is_ended_in_the_sandbox() {
    sandboxes_of_pods::ends_a_late_command(gvisor_world!()).await;
}

#[tokio::test]
async fn the_sandbox_has_the_limits_of_the_pod() {
    let world = gvisor_world!();
    let limit = 256 << 20;
    let pod = world.node.pod("limited").with(|config| {
        let linux = config.linux.get_or_insert_default();
        linux
            .resources
            .get_or_insert_default()
            .memory_limit_in_bytes = limit;
    });
    let pod_id = world.run_pod(&pod).await;
    let spec = world.container("main").shell("sleep 600").memory(64 << 20);
    let id = world.cri.run(&pod_id, &pod, &spec).await.expect("run");
    let [sandbox] = sandboxes(&pod_id)[..] else {
        panic!("one sandbox");
    };
    assert_eq!(memory_limit(sandbox), limit.to_string());
    // This one is on the host's network, and so has its name.
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    assert_eq!(world.printed(&id, &["hostname"]).await, name.trim());
    // Those of one container can't be changed, and that is said.
    let request = orlop_cri_api::v1::UpdateContainerResourcesRequest {
        container_id: id,
        linux: Some(orlop_cri_api::v1::LinuxContainerResources {
            memory_limit_in_bytes: 96 << 20,
            ..Default::default()
        }),
        ..Default::default()
    };
    let mut runtime = world.cri.runtime();
    let updated = runtime.update_container_resources(request).await;
    let error = updated.expect_err("runsc has no such command");
    assert!(error.message().contains("runsc"), "{error}");
    world.finish().await;
}

/// How much memory the cgroup of a process may have.
fn memory_limit(pid: i32) -> String {
    let table = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("its cgroups");
    let path = |head: &str| Some(table.lines().find_map(|line| line.split_once(head))?.1);
    let file = match path(":memory:") {
        Some(path) => format!("/sys/fs/cgroup/memory{path}/memory.limit_in_bytes"),
        None => format!("/sys/fs/cgroup{}/memory.max", path("0::").expect("a path")),
    };
    std::fs::read_to_string(file)
        .expect("a limit")
        .trim()
        .to_owned()
}

#[tokio::test]
async fn a_container_goes_on_when_the_call_that_waits_for_it_is_killed() {
    let world = gvisor_world!();
    let running = world.run_script("waited", "sleep 2; exit 7").await;
    let waiting = [RUNTIME, "wait", running.id.as_str()];
    assert_eq!(count(&waiting, 1).await, 1, "who waits for its end");
    kill(processes(&waiting)[0]);
    let status = world.cri.wait_exited(&running.id).await;
    assert_eq!(status.exit_code, 7);
    world.finish().await;
}

#[tokio::test]
async fn a_container_in_the_sandbox_sees_the_processes_that_it_asks_for() {
    sandboxes_of_pods::shows_the_processes_that_are_asked_for(gvisor_world!()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_in_the_sandbox_has_a_terminal() {
    let world = gvisor_world!();
    let running = world.run_script("screen", "sleep 600").await;
    let client = world
        .node
        .client()
        .command(&["exec", "-it", &running.id, "sh"]);
    let mut shell = Terminal::start(&client, 90, 30);
    shell.send("test -t 0 && echo $((40 + 2)) on a terminal\r");
    shell.wait_for("\n42 on a terminal\n", LIMIT);
    // An interrupt is for what runs in the container.
    shell.send("sleep 500\r");
    tokio::time::sleep(Duration::from_millis(300)).await;
    shell.send("\x03");
    shell.send("echo st''ill; exit 7\r");
    shell.wait_for("\nstill\n", LIMIT);
    assert_eq!(shell.wait(LIMIT).code(), Some(7));
    world.finish().await;
}

/// The gVisor of Debian 12 knows none of the capabilities that Linux 5.8 and 5.9 have brought.
#[tokio::test]
async fn a_privileged_container_has_the_capabilities_that_the_sandbox_knows() {
    let world = gvisor_world!();
    let pod = world.node.pod("mighty").with(|config| {
        let linux = config.linux.get_or_insert_default();
        linux.security_context.get_or_insert_default().privileged = true;
    });
    let pod_id = world.run_pod(&pod).await;
    let spec = world.container("main").shell("sleep 600").with(|config| {
        let linux = config.linux.get_or_insert_default();
        linux.security_context.get_or_insert_default().privileged = true;
    });
    let id = world.cri.run(&pod_id, &pod, &spec).await.expect("run");
    for process in ["1", "self"] {
        let file = format!("/proc/{process}/status");
        let has = world.printed(&id, &["grep", "CapEff", &file]).await;
        let has = has.split_whitespace().last().expect("a set");
        let has = u64::from_str_radix(has, 16).expect("a number");
        assert!(has & 1 << CAP_SYS_ADMIN != 0, "{process}: {has:x}");
    }
    world.finish().await;
}

#[tokio::test]
async fn a_command_that_is_not_there_is_named() {
    let world = gvisor_world!();
    let running = world.run_script("missing", "sleep 600").await;
    let error = world.cri.exec(&running.id, &["/no/such/program"]).await;
    let error = error.expect_err("there is no such program");
    assert!(error.message().contains("/no/such/program"), "{error}");
    let status = world.cri.status(&running.id).await.expect("status");
    assert_eq!(status.state(), ContainerState::ContainerRunning);
    world.finish().await;
}

#[tokio::test]
async fn a_sandbox_that_cannot_be_made_is_told_with_its_reason() {
    skip_unless!(has_program(RUNTIME));
    sandboxes_of_pods::is_named_with_its_reason("runsc").await;
}

#[tokio::test]
async fn such_a_runtime_is_tried_out_and_nothing_is_left_of_the_trial() {
    sandboxes_of_pods::is_tried_out(gvisor_world!(), RUNTIME).await;
}
