//! What holds for every runtime whose pods share more than namespaces: a shim, or a container that is
//! their sandbox.

use std::time::{Duration, Instant};

use orlop_cri_api::v1::{
    ContainerEventType, ContainerState, GetEventsRequest, NamespaceMode, PodSandboxState,
};
use orlop_testkit::{ContainerSpec, Node, assert_contains};

use crate::containers::wait_for;
use crate::keepers::{in_namespace_of, in_pods_namespace};
use crate::processes::{count, kill, processes};
use crate::world::{World, world};

/// Who watches over a pod.
pub(crate) fn watcher(pod: &str) -> Vec<i32> {
    processes(&["supervise", pod])
}

/// What is made with a pod dies: the pod is said to be down within a second, by status and by event,
/// takes no container any more, and leaves nothing. Its neighbour is not concerned.
pub(crate) async fn dies_with_its_pod(world: World, victims: impl Fn(&str) -> Vec<i32>) {
    let script = "while :; do echo here; sleep 0.05; done";
    let neighbour = world.run_script("neighbour", script).await;
    let empty = world.node.pod("empty");
    let empty = world.run_pod(&empty).await;
    let [_] = victims(&empty)[..] else {
        panic!("one before the first container, not {:?}", victims(&empty));
    };
    let running = world.run_script("lost", "sleep 600").await;
    let pod_id = &running.pod_id;
    let [victim] = victims(pod_id)[..] else {
        panic!("one for the pod, not {:?}", victims(pod_id));
    };
    let events = world
        .cri
        .runtime()
        .get_container_events(GetEventsRequest::default())
        .await;
    let mut events = events.expect("events").into_inner();
    kill(victim);
    let killed = Instant::now();
    let told = async {
        loop {
            let event = events.message().await.expect("an event");
            let event = event.expect("no end of events");
            let stopped = ContainerEventType::ContainerStoppedEvent;
            if event.container_id == *pod_id && event.container_event_type() == stopped {
                return event;
            }
        }
    };
    let event = tokio::time::timeout(Duration::from_secs(1), told).await;
    let event = event.expect("the end of the pod is told within a second");
    assert!(killed.elapsed() < Duration::from_secs(1));
    let notready = PodSandboxState::SandboxNotready;
    let told = event.pod_sandbox_status.expect("the pod's status");
    assert_eq!(told.state(), notready);
    let status = world.cri.pod_status(pod_id).await.expect("status");
    assert_eq!(status.state(), notready);

    let status = world.cri.wait_exited(&running.id).await;
    assert_ne!(status.exit_code, 0);
    let again = world.container("again").shell("echo back");
    let error = world.cri.run(pod_id, &running.pod, &again).await;
    let error = error.expect_err("nothing runs there any more");
    assert!(error.message().contains(pod_id), "{error}");
    let ready = world.cri.pod_status(&neighbour.pod_id).await;
    let ready = ready.expect("the neighbour's status").state();
    assert_eq!(ready, PodSandboxState::SandboxReady);
    // Not every runtime has commands in its containers.
    let said = neighbour.stdout().len();
    orlop_testkit::wait_until!(
        Duration::from_secs(5),
        neighbour.stdout().len() > said,
        "the neighbour has stopped"
    );
    for pod in [pod_id, &empty] {
        world.cri.remove_pod(pod).await.expect("remove the pod");
        assert_eq!(count(&[pod], 0).await, 0, "processes of the pod");
    }
    world.finish().await;
}

/// The containers of a pod live in one sandbox, which outlives each of them; `looks` is what the test adds
/// while both run.
pub(crate) async fn hosts_a_whole_pod(
    world: World,
    sandboxes: impl Fn(&str) -> Vec<i32>,
    looks: impl AsyncFnOnce(&World, [&str; 2]),
) {
    let pod = world.node.pod("life").own_network();
    let pod_id = world.run_pod(&pod).await;
    let script = "trap 'echo bye; echo last >&2; exit 5' TERM; echo ready; \
                  while :; do sleep 0.05; done";
    let spec = world.container("main").shell(script).env("COLOUR", "blue");
    let id = world.cri.run(&pod_id, &pod, &spec).await.expect("run");
    let other = world.container("other").command(&["sleep", "600"]);
    let other = world.cri.run(&pod_id, &pod, &other).await.expect("run");
    wait_for(|| sandboxes(&pod_id).len() == 1).await;
    wait_for(|| sandboxes(&id).is_empty()).await;
    looks(&world, [&id, &other]).await;

    let colour = world.printed(&id, &["sh", "-c", "echo $COLOUR"]).await;
    assert_eq!(colour, "blue");
    let command = ["sh", "-c", "echo out; echo err >&2; exit 42"];
    let output = world.cri.exec(&other, &command).await.expect("exec");
    let said = (output.exit_code, &output.stdout[..], &output.stderr[..]);
    assert_eq!(said, (42, &b"out\n"[..], &b"err\n"[..]));

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
    wait_for(|| sandboxes(&pod_id).len() == 1).await;
    assert_eq!(world.printed(&other, &["echo", "still"]).await, "still");
    world.cri.stop_pod(&pod_id).await.expect("stop the pod");
    assert_eq!(count(&[&pod_id], 0).await, 0, "processes of the pod");
    world.finish().await;
}

/// The daemon is killed: the pod's sandbox and container go on, and no line of the log is lost.
pub(crate) async fn outlives_the_daemon(mut world: World, sandboxes: impl Fn(&str) -> Vec<i32>) {
    let script = "i=0; while :; do echo $i; i=$((i+1)); sleep 0.02; done";
    let running = world.run_script("ticking", script).await;
    let before = sandboxes(&running.pod_id);
    world.node.kill9();
    tokio::time::sleep(Duration::from_millis(300)).await;
    world.start_again().await;
    let status = world.cri.status(&running.id).await.expect("status");
    assert_eq!(status.state(), ContainerState::ContainerRunning);
    assert_eq!(sandboxes(&running.pod_id), before);
    assert_eq!(world.printed(&running.id, &["echo", "ahoy"]).await, "ahoy");
    let told = running.stdout();
    let numbers = told.lines().map(|line| line.parse().expect("a number"));
    let numbers: Vec<usize> = numbers.collect();
    assert!(numbers.iter().copied().eq(0..numbers.len()), "{numbers:?}");
    world.cri.stop(&running.id, 0).await.expect("stop");
    let status = world.cri.wait_exited(&running.id).await;
    assert_eq!(status.exit_code, 137);
    world.cri.remove_pod(&running.pod_id).await.expect("remove");
    world.finish().await;
}

/// A command that takes longer than it may is ended, and what else runs in the container goes on.
pub(crate) async fn ends_a_late_command(world: World) {
    let running = world.run_script("limit", "sleep 600 & wait").await;
    let command = ["sh", "-c", "exec sleep 4321"];
    let error = world.cri.exec_within(&running.id, &command, 1).await;
    error.expect_err("takes too long");
    let mut ps = String::new();
    for _ in 0..100 {
        ps = seen_by(&world, &running.id).await;
        if !ps.contains("4321") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(ps.contains("600"), "it shows what runs:\n{ps}");
    assert!(!ps.contains("4321"), "it goes on:\n{ps}");
    world.finish().await;
}

/// The daemon has tried the runtime out, and no process with `word` is left of the trial.
pub(crate) async fn is_tried_out(world: World, word: &str) {
    let said = world.doctor().await;
    assert!(said.contains("test works"), "{said}");
    let state = world.node.state();
    let state = state.to_str().expect("a path");
    for word in [word, state] {
        assert_eq!(count(&["orlop-trial-", word], 0).await, 0);
    }
    world.finish().await;
}

/// It dies while no daemon is there.
pub(crate) async fn is_missed(mut world: World, victims: impl Fn(&str) -> Vec<i32>) {
    let running = world.run_script("missed", "sleep 600").await;
    let [victim] = victims(&running.pod_id)[..] else {
        panic!("one for the pod");
    };
    world.node.kill9();
    kill(victim);
    tokio::time::sleep(Duration::from_millis(300)).await;
    world.start_again().await;
    is_down_within_a_second(&world, &running.pod_id).await;
    let status = world.cri.wait_exited(&running.id).await;
    assert_eq!(status.state(), ContainerState::ContainerExited);
    let done = world.cri.remove_pod(&running.pod_id).await;
    done.expect("remove the pod");
    assert_eq!(count(&[&running.pod_id], 0).await, 0);
    world.finish().await;
}

/// The pod is said not to be ready any more.
pub(crate) async fn is_down_within_a_second(world: &World, pod: &str) {
    let status = async || world.cri.pod_status(pod).await.expect("status");
    let down = PodSandboxState::SandboxNotready;
    orlop_testkit::wait_until!(
        Duration::from_secs(1),
        status().await.state() == down,
        "it is taken for ready"
    );
}

/// A program of this name that only fails: the pod is refused in its words, and nothing of it stays.
pub(crate) async fn is_named_with_its_reason(name: &str) {
    let dir = tempfile::tempdir().expect("a directory");
    let broken = dir.path().join(name);
    std::fs::write(&broken, "#!/bin/sh\necho no platform here >&2\nexit 128\n").expect("write");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&broken, mode).expect("make it executable");
    let world = world!(Node::orlop().runtime(broken.to_str().expect("a path")));
    let error = world.cri.run_pod(&world.node.pod("broken")).await;
    let error = error.expect_err("no sandbox, no pod");
    assert!(error.message().contains("no platform here"), "{error}");
    assert!(world.cri.pods().await.expect("pods").is_empty());
    let broken = broken.to_str().expect("a path");
    assert_eq!(count(&["supervise", broken], 0).await, 0);
    world.finish().await;
}

/// The host has no cgroup for them that tells what containers use: they are asked where they run.
pub(crate) async fn tells_what_is_used(world: World) {
    let script = "i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done; sleep 600";
    let running = world.run_script("busy", script).await;
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let answer = world.cri.stats(&running.id).await;
        let stats = answer.expect("statistics");
        let cpu = stats.cpu.and_then(|cpu| cpu.usage_core_nano_seconds);
        let memory = stats.memory.and_then(|memory| memory.working_set_bytes);
        let used = (
            cpu.unwrap_or_default().value,
            memory.unwrap_or_default().value,
        );
        if used.0 > 1_000_000 && used.1 > 0 {
            break;
        }
        assert!(Instant::now() < until, "{used:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    world.cri.remove_pod(&running.pod_id).await.expect("remove");
    world.finish().await;
}

/// A container sees the processes that it asks for: its own, those of another, or all of its pod's.
pub(crate) async fn shows_the_processes_that_are_asked_for(world: World) {
    let alone = |spec: ContainerSpec| {
        spec.with(|config| {
            let linux = config.linux.get_or_insert_default();
            let security = linux.security_context.get_or_insert_default();
            let namespaces = security.namespace_options.get_or_insert_default();
            namespaces.pid = NamespaceMode::Container.into();
        })
    };
    let sleeping = |name: &str, seconds: u32| {
        let script = format!("(sleep 0.1 &); exec sleep {seconds}");
        world.container(name).shell(&script)
    };
    let pod = world.node.pod("apart");
    let pod_id = world.run_pod(&pod).await;
    let mut ids = Vec::new();
    for (name, seconds) in [("main", 611), ("other", 612)] {
        let spec = alone(sleeping(name, seconds));
        ids.push(world.cri.run(&pod_id, &pod, &spec).await.expect("run"));
    }
    let debug = in_namespace_of(sleeping("debug", 613), &ids[0]);
    let debug = world.cri.run(&pod_id, &pod, &debug).await.expect("run");
    for (id, ours) in [
        (&ids[0], [611, 613]),
        (&debug, [611, 613]),
        (&ids[1], [612; 2]),
    ] {
        let seen = seen_by(&world, id).await;
        for seconds in 611..=613 {
            let sees = seen.contains(&format!("sleep {seconds}"));
            assert_eq!(sees, ours.contains(&seconds), "{seconds}:\n{seen}");
        }
        assert!(!seen.contains("orlop"), "processes of the host:\n{seen}");
    }

    let pod = world.node.pod("together").shared_pid();
    let pod_id = world.run_pod(&pod).await;
    let mut ids = Vec::new();
    for (name, seconds) in [("main", 614), ("other", 615)] {
        let spec = in_pods_namespace(sleeping(name, seconds));
        ids.push(world.cri.run(&pod_id, &pod, &spec).await.expect("run"));
    }
    let mut seen = String::new();
    for _ in 0..100 {
        seen = seen_by(&world, &ids[1]).await;
        // What has lost its parent, and has ended, is collected.
        if !seen.contains("[sleep]") && !seen.contains("sleep 0.1") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(!seen.contains("[sleep]"), "{seen}");
    assert_contains!(seen, "sleep 614", "sleep 615");
    let first = world.printed(&ids[1], &["cat", "/proc/1/cmdline"]).await;
    assert!(
        first.contains("pause") || first.contains("pod-init"),
        "{first}"
    );
    world.cri.stop(&ids[0], 0).await.expect("stop");
    let still = world.printed(&ids[1], &["echo", "still"]).await;
    assert_eq!(still, "still", "it needs no other container");
    world.finish().await;
}

async fn seen_by(world: &World, id: &str) -> String {
    world.printed(id, &["ps", "-o", "args"]).await
}

/// A life of a pod: output, streams in both directions, a terminal's command, an exit code, an end.
pub(crate) async fn lives(world: World, name: &str) {
    let pod = world.node.pod(name);
    let pod_id = world.run_pod(&pod).await;
    let script = "echo out; echo err >&2; trap 'exit 5' TERM; while :; do sleep 0.05; done";
    let spec = world.container("main").shell(script);
    let id = world.cri.run(&pod_id, &pod, &spec).await.expect("run");
    assert_eq!(world.printed(&id, &["echo", "ahoy"]).await, "ahoy");
    let command = ["sh", "-c", "echo here; echo there >&2; exit 42"];
    let output = world.cri.exec(&id, &command).await.expect("exec");
    let said = (output.exit_code, &output.stdout[..], &output.stderr[..]);
    assert_eq!(said, (42, &b"here\n"[..], &b"there\n"[..]));
    world.cri.stop(&id, 20).await.expect("stop");
    let status = world.cri.wait_exited(&id).await;
    assert_eq!(status.exit_code, 5);
    let log = orlop_testkit::cri::read_log(&pod.logs().join("main.log"));
    let log: Vec<_> = log
        .iter()
        .map(|line| (line.stream.as_str(), String::from_utf8_lossy(&line.content)))
        .collect();
    for (stream, line) in [("stdout", "out"), ("stderr", "err")] {
        assert!(log.contains(&(stream, line.into())), "{log:?}");
    }
    world.cri.stop_pod(&pod_id).await.expect("stop the pod");
    assert_eq!(count(&[&pod_id], 0).await, 0, "processes of the pod");
    world.finish().await;
}

/// The host sees no cgroup in which memory ran out; it is told.
pub(crate) async fn tells_want_of_memory(world: World) {
    let spec = world
        .container("main")
        .command(&["tail", "/dev/zero"])
        .memory(24 << 20);
    let running = world.run_container("greedy", &spec).await;
    let status = world.cri.wait_exited(&running.id).await;
    assert_eq!(
        (status.exit_code, status.reason.as_str()),
        (137, "OOMKilled")
    );
    world.cri.remove_pod(&running.pod_id).await.expect("remove");
    world.finish().await;
}
