//! What the daemon makes of keepers, and of the processes that it finds by their numbers.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use orlop_cri_api::v1::{ContainerState, NamespaceMode, PodSandboxState};
use orlop_testkit::process::status;
use orlop_testkit::{ContainerSpec, ImageBuilder, Node, NodeBuilder, PodSpec};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, Signal};
use rustix::process::{kill_process, pidfd_getfd, pidfd_open};
use serde_json::json;
use tokio::task::JoinHandle;

use crate::containers::wait_for;
use crate::restart::script;
use crate::world::{World, ours, world};

const LIMIT: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_pod_whose_keeper_is_slow_to_answer_lives_on() {
    let world = ours!();
    let running = world.run_script("slow", "sleep 600").await;
    let keeper = keeper_of(&running.pod_id);
    kill_process(keeper, Signal::STOP).expect("stop");
    cut_connections(keeper);
    let deadline = Instant::now() + LIMIT;
    while !world.node.log().contains("does not respond; trying again") {
        assert!(Instant::now() < deadline, "{}", world.node.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(
        state_of(&world, &running.pod_id).await,
        PodSandboxState::SandboxReady
    );
    kill_process(keeper, Signal::CONT).expect("continue");
    // Served again as soon as it has answered.
    while world.cri.exec(&running.id, &["true"]).await.is_err() {
        assert!(Instant::now() < deadline, "{}", world.node.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(
        state_of(&world, &running.pod_id).await,
        PodSandboxState::SandboxReady
    );
    let status = world.cri.status(&running.id).await.expect("status");
    assert_eq!(status.state(), ContainerState::ContainerRunning);
    world.finish().await;
}

#[tokio::test]
async fn a_pod_whose_keeper_hangs_can_be_ended_and_removed() {
    let world = world!(impatient(Node::orlop()));
    let running = world.run_script("hung", "sleep 600").await;
    kill_process(keeper_of(&running.pod_id), Signal::STOP).expect("stop");
    world.cri.stop_pod(&running.pod_id).await.expect("stop");
    let status = world.cri.status(&running.id).await.expect("status");
    assert_eq!(status.state(), ContainerState::ContainerExited);
    world.cri.remove_pod(&running.pod_id).await.expect("remove");
    world.finish().await;
}

#[tokio::test]
async fn a_pod_whose_keeper_hangs_while_a_container_starts_can_be_ended_and_removed() {
    let tools = tempfile::tempdir().expect("a directory");
    let note = tools.path().join("pid");
    let create = format!("echo $$ > {}; exec sleep 4713", note.display());
    let world = world!(impatient(Node::orlop()).runtime(&creating_by(tools.path(), &create)));
    let pod = world.node.pod("hung");
    let pod_id = world.run_pod(&pod).await;
    let (start, runtime) = signal_keeper_at_start(&world, &pod, &pod_id, &note, Signal::STOP).await;
    let [starting] = &world.cri.containers().await.expect("list")[..] else {
        panic!("one container")
    };
    says_what_to_do(world.cri.stop(starting, 1)).await;
    world.cri.stop_pod(&pod_id).await.expect("stop");
    start
        .await
        .expect("no panic")
        .expect_err("nobody starts it");
    assert!(has_ended(&runtime), "it may make something yet");
    world.cri.remove_pod(&pod_id).await.expect("remove");
    world.finish().await;
}

#[tokio::test]
async fn a_pod_whose_keeper_hangs_after_its_container_ended_can_be_ended_and_removed() {
    let mut world = world!(impatient(Node::orlop()));
    let ended = world.run_script("hung", "exit 7").await;
    assert_eq!(world.cri.wait_exited(&ended.id).await.exit_code, 7);
    // The next daemon does not know what was cleaned up.
    world.crash().await;
    kill_process(keeper_of(&ended.pod_id), Signal::STOP).expect("stop");
    world.cri.stop_pod(&ended.pod_id).await.expect("stop");
    let status = world.cri.status(&ended.id).await.expect("status");
    assert_eq!(status.exit_code, 7);
    world.cri.remove_pod(&ended.pod_id).await.expect("remove");
    world.finish().await;
}

#[tokio::test]
async fn a_container_whose_keeper_hangs_is_asked_to_end_and_ended_without_it() {
    let world = world!(impatient(Node::orlop()));
    let pod = world.node.pod("hung");
    let pod_id = world.run_pod(&pod).await;
    let run = async |name, script| {
        let spec = world.container(name).shell(script);
        world.cri.run(&pod_id, &pod, &spec).await.expect("run")
    };
    let polite = run("polite", "trap 'exit 3' TERM; while :; do sleep 0.1; done").await;
    let deaf = run("deaf", "trap '' TERM; while :; do sleep 0.1; done").await;
    let keeper = keeper_of(&pod_id);
    kill_process(keeper, Signal::STOP).expect("stop");
    let begin = Instant::now();
    let (asked, killed) = tokio::join!(world.cri.stop(&polite, 600), world.cri.stop(&deaf, 1));
    asked.expect("stop");
    killed.expect("stop");
    assert!(begin.elapsed() < LIMIT * 2, "it was not asked to end");
    for id in [&polite, &deaf] {
        let status = world.cri.status(id).await.expect("status");
        assert_eq!(status.state(), ContainerState::ContainerExited);
        assert_eq!((status.exit_code, &*status.reason), (255, "Unknown"));
    }
    // Of what is left of them its keeper has a part.
    says_what_to_do(world.cri.remove(&deaf)).await;
    // It may only have been slow.
    kill_process(keeper, Signal::CONT).expect("continue");
    let next = run("next", "exit 4").await;
    assert_eq!(world.cri.wait_exited(&next).await.exit_code, 4);
    for id in [&polite, &deaf] {
        world.cri.remove(id).await.expect("remove");
    }
    world.finish().await;
}

#[tokio::test]
async fn a_container_whose_keeper_hangs_is_asked_to_end_by_a_real_time_signal() {
    let world = world!(impatient(Node::orlop()));
    let image = ImageBuilder::busybox()
        .config("StopSignal", json!("SIGRTMIN+3"))
        .build();
    let reference = world.image(&image, "real-time:1").await;
    let script = "trap 'echo asked; exit 3' 37; echo ready; while :; do sleep 0.1; done";
    let spec = ContainerSpec::new("main", &reference).shell(script);
    let running = world.run_container("hung", &spec).await;
    wait_for(|| running.stdout().contains("ready")).await;
    let keeper = keeper_of(&running.pod_id);
    kill_process(keeper, Signal::STOP).expect("stop");
    world.cri.stop(&running.id, 600).await.expect("stop");
    // It passes on what was printed meanwhile.
    kill_process(keeper, Signal::CONT).expect("continue");
    wait_for(|| running.stdout().contains("asked")).await;
    world.finish().await;
}

#[tokio::test]
async fn a_container_that_was_being_made_when_the_daemon_died_could_not_be_started() {
    let tools = tempfile::tempdir().expect("a directory");
    let note = tools.path().join("pid");
    let create = format!("echo $$ > {}; sleep 3", note.display());
    let mut world = world!(Node::orlop().runtime(&creating_by(tools.path(), &create)));
    let pod = world.node.pod("half");
    let pod_id = world.run_pod(&pod).await;
    let main = world.container("main").shell("sleep 600");
    let main = world.cri.create(&pod_id, &pod, &main).await;
    let (cri, main) = (world.cri.clone(), main.expect("create"));
    let id = main.clone();
    let start = tokio::spawn(async move { cri.start(&id).await });
    noted(&note).await;
    world.node.kill9();
    start.await.expect("no panic").expect_err("nobody answers");
    world.start_again().await;
    let status = world.cri.status(&main).await.expect("status");
    assert_eq!(status.state(), ContainerState::ContainerExited);
    assert_eq!((status.exit_code, &*status.reason), (128, "StartError"));
    world.cri.stop_pod(&pod_id).await.expect("stop");
    world.cri.remove_pod(&pod_id).await.expect("remove");
    world.finish().await;
}

#[tokio::test]
async fn a_pod_whose_shared_pid_namespace_has_ended_is_not_ready() {
    let mut world = ours!();
    let (seen, unseen) = (shared(&world, "seen").await, shared(&world, "unseen").await);
    kill_process(init_of(&seen.0), Signal::KILL).expect("kill");
    assert_eq!(world.cri.wait_exited(&seen.1).await.exit_code, 137);
    until_not_ready(&world, &seen.0).await;
    let spec = in_pods_namespace(world.container("more").shell("true"));
    let refused = world
        .cri
        .create(&seen.0, &world.node.pod("seen"), &spec)
        .await;
    assert_eq!(
        refused.expect_err("refused").code(),
        tonic::Code::FailedPrecondition
    );

    // Or while nobody looks.
    world.node.kill9();
    kill_process(init_of(&unseen.0), Signal::KILL).expect("kill");
    world.start_again().await;
    assert_eq!(world.cri.wait_exited(&unseen.1).await.exit_code, 137);
    until_not_ready(&world, &unseen.0).await;
    world.finish().await;
}

#[tokio::test]
async fn a_container_does_not_join_by_the_number_of_a_process_that_has_ended() {
    let world = ours!();
    let pod = world.node.pod("late");
    let pod_id = world.run_pod(&pod).await;
    let main = world.container("main").shell("sleep 600");
    let main = world.cri.run(&pod_id, &pod, &main).await.expect("run");
    let debug = in_namespace_of(world.container("debug").shell("sleep 600"), &main);
    world.cri.run(&pod_id, &pod, &debug).await.expect("run");
    let late = in_namespace_of(world.container("late").shell("sleep 600"), &main);
    let late = world.cri.create(&pod_id, &pod, &late).await;
    let late = late.expect("create");
    world.cri.stop(&main, 0).await.expect("stop");
    let error = world.cri.start(&late).await.expect_err("it started");
    assert_eq!(error.code(), tonic::Code::FailedPrecondition, "{error}");
    assert!(error.message().contains("is not running"), "{error}");
    world.finish().await;
}

#[tokio::test]
async fn a_runtime_that_would_never_end_dies_with_its_keeper() {
    let tools = tempfile::tempdir().expect("a directory");
    let note = tools.path().join("pid");
    let create = format!("echo $$ > {}; exec sleep 4712", note.display());
    let world = world!(Node::orlop().runtime(&creating_by(tools.path(), &create)));
    let (start, hung) = kill_keeper_at_start(&world, &note).await;
    start.expect_err("nobody starts it");
    orlop_testkit::wait_until!(LIMIT, has_ended(&hung), "the runtime lives on");
    world.finish().await;
}

#[tokio::test]
async fn a_runtime_that_outlives_its_keeper_is_ended_before_its_container_is_cleared_away() {
    let tools = tempfile::tempdir().expect("a directory");
    let (note, fifo) = (tools.path().join("pid"), tools.path().join("fifo"));
    // What it has forked is told nothing of the keeper's end, and would go on to make something.
    let create = format!(
        "mkfifo {fifo}; sh -c 'echo $$ > {note}; read go < {fifo}' late \"$@\" & exec sleep 4712",
        fifo = fifo.display(),
        note = note.display()
    );
    let world = world!(Node::orlop().runtime(&creating_by(tools.path(), &create)));
    let (start, late) = kill_keeper_at_start(&world, &note).await;
    start.expect_err("nobody starts it");
    assert!(has_ended(&late), "it may make something yet");
    world.finish().await;
}

/// A node that waits a quarter of the usual time for a keeper.
fn impatient(node: NodeBuilder) -> NodeBuilder {
    node.env("ORLOP_DEBUG_TIMEOUT_DIVISOR", "4")
}

/// What a keeper that hangs keeps from being done fails within seconds.
async fn says_what_to_do(work: impl Future<Output = Result<(), tonic::Status>>) {
    let begin = Instant::now();
    let error = work.await.expect_err("it hangs");
    assert_eq!(error.code(), tonic::Code::DeadlineExceeded, "{error}");
    assert!(error.message().contains("stop the pod sandbox"), "{error}");
    assert!(begin.elapsed() < LIMIT, "{:?}", begin.elapsed());
}

/// A runtime that does something of its own where it is to create a container.
fn creating_by(tools: &Path, what: &str) -> String {
    let body = format!("case \" $* \" in *' create '*) {what};; esac\nexec runc \"$@\"");
    script(tools, "slow", &body)
}

/// Starts a container, and kills the pod's keeper once a process has noted its id; what became of
/// the start, and that process.
async fn kill_keeper_at_start(world: &World, note: &Path) -> (Result<(), tonic::Status>, OwnedFd) {
    let pod = world.node.pod("slow");
    let pod_id = world.run_pod(&pod).await;
    let (start, process) = signal_keeper_at_start(world, &pod, &pod_id, note, Signal::KILL).await;
    (start.await.expect("no panic"), process)
}

/// Starts a container, and signals the pod's keeper once a process has noted its id; the start, and that
/// process.
async fn signal_keeper_at_start(
    world: &World,
    pod: &PodSpec,
    pod_id: &str,
    note: &Path,
    signal: Signal,
) -> (JoinHandle<Result<(), tonic::Status>>, OwnedFd) {
    let main = world.container("main").shell("sleep 600");
    let main = world.cri.create(pod_id, pod, &main).await;
    let (cri, main) = (world.cri.clone(), main.expect("create"));
    let start = tokio::spawn(async move { cri.start(&main).await });
    let process = pidfd_open(noted(note).await, PidfdFlags::empty()).expect("it lives");
    kill_process(keeper_of(pod_id), signal).expect("signal");
    (start, process)
}

/// The process that has noted its id.
async fn noted(note: &Path) -> Pid {
    let deadline = Instant::now() + LIMIT;
    loop {
        let text = std::fs::read_to_string(note).unwrap_or_default();
        if let Some(pid) = text.trim().parse().ok().and_then(Pid::from_raw) {
            return pid;
        }
        assert!(Instant::now() < deadline, "it was not started");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn has_ended(process: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(process, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())) == Ok(1)
}

/// A pod whose containers share their processes, and one of them.
/// Processes begin where their makers are, but are not bound to that.
#[tokio::test]
async fn keepers_and_containers_may_run_on_all_processors() {
    let world = ours!();
    let pod = world.node.pod("anywhere");
    let pod_id = world.run_pod(&pod).await;
    let main = world.container("main").shell("sleep 600");
    let main = world.cri.run(&pod_id, &pod, &main).await.expect("run");
    let allowed = |pid: u32| status(pid, "Cpus_allowed_list:");
    let ours = allowed(std::process::id());
    for look in ["/proc/self/status", "/proc/1/status"] {
        let words = ["grep", "Cpus_allowed_list", look];
        let seen = world.cri.exec(&main, &words).await.expect("exec");
        assert_eq!(String::from_utf8_lossy(&seen.stdout).trim(), ours);
    }
    let keeper = keeper_of(&pod_id).as_raw_pid();
    assert_eq!(allowed(keeper.unsigned_abs()), ours);
    world.finish().await;
}

async fn shared(world: &World, name: &str) -> (String, String) {
    let pod = world.node.pod(name).shared_pid();
    let pod_id = world.run_pod(&pod).await;
    let spec = in_pods_namespace(world.container("main").shell("sleep 600"));
    let id = world.cri.run(&pod_id, &pod, &spec).await.expect("run");
    (pod_id, id)
}

pub(crate) fn in_pods_namespace(spec: ContainerSpec) -> ContainerSpec {
    spec.with(|config| namespaces(config).pid = NamespaceMode::Pod.into())
}

pub(crate) fn in_namespace_of(spec: ContainerSpec, target: &str) -> ContainerSpec {
    spec.with(|config| {
        let namespaces = namespaces(config);
        namespaces.pid = NamespaceMode::Target.into();
        target.clone_into(&mut namespaces.target_id);
    })
}

fn namespaces(
    config: &mut orlop_cri_api::v1::ContainerConfig,
) -> &mut orlop_cri_api::v1::NamespaceOption {
    let linux = config.linux.get_or_insert_default();
    let security = linux.security_context.get_or_insert_default();
    security.namespace_options.get_or_insert_default()
}

async fn state_of(world: &World, pod: &str) -> PodSandboxState {
    world.cri.pod_status(pod).await.expect("status").state()
}

async fn until_not_ready(world: &World, pod: &str) {
    orlop_testkit::wait_until!(
        LIMIT,
        state_of(world, pod).await != PodSandboxState::SandboxReady,
        "{}",
        world.node.log()
    );
}

pub(crate) fn keeper_of(pod: &str) -> Pid {
    let entries = std::fs::read_dir("/proc").expect("read /proc").flatten();
    let mut pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let found = pids.find(|pid| {
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut words = command.split(|byte| *byte == 0);
        words
            .next()
            .is_some_and(|word| word.ends_with(b"orlop-keeper"))
            && words.next() == Some(pod.as_bytes())
    });
    Pid::from_raw(found.expect("a keeper")).expect("a process id")
}

/// The first process of the PID namespace that a pod's containers share.
fn init_of(pod: &str) -> Pid {
    let keeper = keeper_of(pod).as_raw_pid();
    let children = format!("/proc/{keeper}/task/{keeper}/children");
    let children = std::fs::read_to_string(children).expect("read");
    let mut pids = children.split_whitespace().map(str::parse::<i32>);
    let found = pids.find_map(|pid| {
        let pid = pid.ok()?;
        let comm = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        (comm.trim() == "pod-init").then_some(pid)
    });
    Pid::from_raw(found.expect("an init")).expect("a process id")
}

/// Ends all connections of a process as their other ends would.
fn cut_connections(pid: Pid) {
    let process = pidfd_open(pid, PidfdFlags::empty()).expect("open");
    let directory = format!("/proc/{}/fd", pid.as_raw_pid());
    for entry in std::fs::read_dir(directory).expect("read").flatten() {
        let number = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        let Ok(fd) = pidfd_getfd(
            &process,
            number.expect("a number"),
            PidfdGetfdFlags::empty(),
        ) else {
            continue;
        };
        if rustix::net::sockopt::socket_acceptconn(&fd) == Ok(false) {
            let _ = rustix::net::shutdown(&fd, rustix::net::Shutdown::Both);
        }
    }
}
