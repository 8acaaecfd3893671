//! Our shim under containerd: what happens to a pod when something of it dies, and what containerd's
//! own client asks of it beside the kubelet.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use orlop_cri_api::v1::{ContainerState, PodSandboxState};
use orlop_testkit::node::containerd_client;
use orlop_testkit::{Node, NodeBuilder, assert_contains, machine};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::processes::{count, kill, processes};
use crate::world::{Running, World, world};

const SHIM: &str = "containerd-shim-orlop-v1";
const KEEPER: &str = "orlop-keeper";

fn containerd() -> NodeBuilder {
    Node::containerd().our_shim()
}

/// Waits until something is so, which takes no longer than a moment.
async fn soon(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    for _ in 0..500 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what} has not come to pass");
}

/// The directories of our shims that are about this node.
fn places(world: &World) -> Vec<PathBuf> {
    let socket = world.node.socket();
    let entries = std::fs::read_dir("/run/orlop/containerd")
        .into_iter()
        .flatten();
    let places = entries.flatten().map(|entry| entry.path());
    // Each has the keeper's log, in which nothing stands, and a socket: whose it is, the shim's line tells.
    let shims = processes(&[SHIM, &socket.to_string_lossy()]);
    places.filter(|_| !shims.is_empty()).collect()
}

async fn assert_nothing_is_left(world: World, running: &Running) {
    let done = world.cri.stop_pod(&running.pod_id).await;
    done.expect("stop the pod");
    let done = world.cri.remove_pod(&running.pod_id).await;
    done.expect("remove the pod");
    assert_eq!(count(&[SHIM, &running.pod_id], 0).await, 0, "shims");
    assert_eq!(count(&[KEEPER, &running.pod_id], 0).await, 0, "keepers");
    assert_eq!(count(&[&running.id], 0).await, 0, "of the container");
    assert!(places(&world).is_empty());
    world.finish().await;
}

async fn assert_killed(world: &World, running: &Running) {
    soon("the container's end", async || {
        let status = world.cri.status(&running.id).await.expect("status");
        status.state == ContainerState::ContainerExited as i32 && status.exit_code != 0
    })
    .await;
    soon("the pod's end", async || {
        let status = world.cri.pod_status(&running.pod_id).await.expect("status");
        status.state == PodSandboxState::SandboxNotready as i32
    })
    .await;
}

#[tokio::test]
async fn a_pod_is_its_keeper_and_a_shim() {
    let world = world!(containerd());
    let pod = world
        .node
        .pod("pod")
        .shared_pid()
        .own_network()
        .hostname("of-the-pod");
    let pod_id = world.run_pod(&pod).await;
    let container = world.container("main").shell("sleep 1000");
    let id = world.cri.run(&pod_id, &pod, &container).await.expect("run");
    let running = Running { pod, pod_id, id };
    assert_eq!(count(&[SHIM, &running.pod_id], 1).await, 1);
    assert_eq!(count(&[KEEPER, &running.pod_id], 1).await, 1);
    // What holds the processes is the keeper's, and no container that only waits.
    let ps = world.printed(&running.id, &["ps"]).await;
    assert!(ps.contains("pod-init") && !ps.contains("pause"), "{ps}");
    let hostname = world.printed(&running.id, &["hostname"]).await;
    assert_eq!(hostname, "of-the-pod");
    assert_nothing_is_left(world, &running).await;
}

#[tokio::test]
async fn a_killed_shim_takes_its_pod_along_and_leaves_nothing() {
    let world = world!(containerd());
    let running = world.run_script("pod", "sleep 1000").await;
    kill(processes(&[SHIM, &running.pod_id])[0]);
    assert_killed(&world, &running).await;
    assert_nothing_is_left(world, &running).await;
}

#[tokio::test]
async fn a_killed_keeper_takes_its_pod_along_and_leaves_nothing() {
    let world = world!(containerd());
    let running = world.run_script("pod", "sleep 1000").await;
    kill(processes(&[KEEPER, &running.pod_id])[0]);
    assert_killed(&world, &running).await;
    assert_nothing_is_left(world, &running).await;
}

#[tokio::test]
async fn pods_go_on_while_containerd_is_away() {
    let mut world = world!(containerd());
    let script = "i=0; while [ ! -e /end ]; do i=$((i+1)); echo line $i; sleep 0.02; done; exit 3";
    let running = world.run_script("pod", script).await;
    world.node.kill9();
    tokio::time::sleep(Duration::from_millis(300)).await;
    world.start_again().await;
    assert_eq!(world.printed(&running.id, &["echo", "back"]).await, "back");
    let before = running.stdout().lines().count();
    soon("more output", async || {
        running.stdout().lines().count() > before + 10
    })
    .await;
    world.printed(&running.id, &["touch", "/end"]).await;
    let status = world.cri.wait_exited(&running.id).await;
    assert_eq!(status.exit_code, 3);
    assert_nothing_is_left(world, &running).await;
}

#[tokio::test]
async fn an_end_while_containerd_is_away_is_seen() {
    let mut world = world!(containerd());
    let script = "until [ -e /end ]; do sleep 0.02; done; sleep 0.2; exit 5";
    let running = world.run_script("pod", script).await;
    world.printed(&running.id, &["touch", "/end"]).await;
    world.node.kill9();
    tokio::time::sleep(Duration::from_millis(500)).await;
    world.start_again().await;
    let status = world.cri.wait_exited(&running.id).await;
    assert_eq!(status.exit_code, 5);
    assert_nothing_is_left(world, &running).await;
}

/// Ends shims and keepers while pods come up, and asks for the removal of these as a kubelet does: until it is
/// done.
#[tokio::test]
async fn shims_and_keepers_killed_at_random_moments_leave_nothing() {
    const ROUNDS: u64 = 12;
    let world = world!(containerd());
    let mut pods = Vec::new();
    for round in 0..ROUNDS {
        let pod = world.node.pod(&format!("pod-{round}"));
        let (client, spec) = (
            world.node.cri().await,
            world.container("main").shell("sleep 777"),
        );
        let starting = tokio::spawn(async move {
            let id = client.run_pod(&pod).await?;
            let container = client.run(&id, &pod, &spec).await;
            container.map(|container| (id, container))
        });
        // Moments all over a start, and after it.
        tokio::time::sleep(Duration::from_millis(20 + round * 17 % 200)).await;
        let socket = world.node.socket();
        let shims = processes(&[SHIM, &socket.to_string_lossy(), "serve"]);
        let victim = shims.last().copied();
        let keeper = victim.and_then(|shim| processes(&[KEEPER, &pod_of(shim)]).first().copied());
        let victim = if round % 2 == 0 { victim } else { keeper };
        if let Some(pid) = victim.and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        if let Ok(Ok(made)) = starting.await {
            pods.push(made);
        }
        for pod in world.cri.pods().await.expect("pods") {
            soon("the pod's removal", async || {
                world.cri.remove_pod(&pod).await.is_ok()
            })
            .await;
        }
    }
    for (pod, container) in &pods {
        for words in [[SHIM, pod], [KEEPER, pod], ["runc", container]] {
            assert_eq!(count(&words, 0).await, 0, "{words:?}");
        }
        let state = PathBuf::from("/run/containerd/runc/k8s.io").join(container);
        assert!(!state.exists(), "{}", state.display());
    }
    world.finish().await;
}

/// The pod that a shim serves.
fn pod_of(shim: i32) -> String {
    let line = std::fs::read(format!("/proc/{shim}/cmdline")).unwrap_or_default();
    let words: Vec<_> = line.split(|byte| *byte == 0).collect();
    let at = words.iter().position(|word| *word == b"-id");
    let id = at
        .and_then(|at| words.get(at + 1))
        .copied()
        .unwrap_or(b"none");
    String::from_utf8_lossy(id).into_owned()
}

#[tokio::test]
async fn a_command_that_is_killed_takes_what_it_started_along() {
    let world = world!(containerd());
    let running = world.run_script("pod", "sleep 1000").await;
    let words = ["sh", "-c", "sleep 4242 & sleep 4242"];
    let limit = world.cri.exec_within(&running.id, &words, 1);
    assert!(limit.await.is_err());
    soon("the end of what it started", async || {
        !world
            .printed(&running.id, &["ps"])
            .await
            .contains("sleep 4242")
    })
    .await;
    assert_nothing_is_left(world, &running).await;
}

#[tokio::test]
async fn a_runtime_that_is_not_there_is_named() {
    let world = world!(containerd());
    // Where the node's handlers have their options.
    let options = world.node.scratch().path("options.toml");
    std::fs::write(&options, "BinaryName = \"no-such-runtime\"\n").unwrap();
    let pod = world.node.pod("pod");
    let pod_id = world.cri.run_pod(&pod).await;
    let pod_id = pod_id.expect("a pod needs no runtime");
    let refused = world.cri.run(&pod_id, &pod, &world.container("main")).await;
    let refused = refused.expect_err("no runtime").to_string();
    assert_contains!(refused, "cannot find the OCI runtime no-such-runtime");
    std::fs::write(&options, "BinaryName = 3\n").unwrap();
    let refused = world.cri.run_pod(&world.node.pod("other")).await;
    let refused = refused.expect_err("options of no sense").to_string();
    assert!(
        refused.contains("options of the runtime handler"),
        "{refused}"
    );
    world.finish().await;
}

/// containerd's own client.
struct Ctr<'w>(&'w World);

impl Ctr<'_> {
    fn run(&self, words: &[&str]) -> Output {
        let program = containerd_client().expect("ctr");
        let mut command = Command::new(program);
        command.arg("--address").arg(self.0.node.socket());
        command.args(["--namespace", "k8s.io"]).args(words);
        command.output().expect("run ctr")
    }

    fn says(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn start(&self, more: &[&str], id: &str, script: &str) {
        let mut words = vec!["run", "--detach", "--runtime", "io.containerd.orlop.v1"];
        words.extend(more);
        words.extend([&self.0.busybox, id, "sh", "-c", script]);
        self.says(&words);
    }

    fn end(&self, id: &str) {
        self.says(&["task", "kill", "--signal", "KILL", id]);
        self.forget(id);
    }

    fn forget(&self, id: &str) {
        // It may not have ended yet.
        let delete = || self.run(&["task", "delete", id]);
        for _ in 0..100 {
            if delete().status.success() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.says(&["container", "delete", id]);
    }
}

#[tokio::test]
async fn tasks_of_ctr_live_pause_are_counted_and_end() {
    let world = world!(containerd());
    let ctr = Ctr(&world);
    // Runtimes keep the containers of all containerds in one place.
    let one = format!("{}-one", world.node.id());
    ctr.start(&["--null-io"], &one, "sleep 1000 & sleep 1000");
    assert!(ctr.says(&["task", "ls"]).contains("RUNNING"));
    soon("both processes", async || {
        ctr.says(&["task", "ps", &one]).lines().count() == 1 + 2
    })
    .await;
    ctr.says(&["task", "pause", &one]);
    assert!(ctr.says(&["task", "ls"]).contains("PAUSED"));
    let again = ctr.run(&["task", "pause", &one]);
    assert!(!again.status.success());
    ctr.says(&["task", "resume", &one]);
    let metrics = ctr.says(&["task", "metrics", &one]);
    let memory = metrics
        .lines()
        .find(|line| line.starts_with("memory.usage"));
    let memory = memory.and_then(|line| line.split_ascii_whitespace().last());
    let memory: u64 = memory
        .and_then(|number| number.parse().ok())
        .unwrap_or_default();
    assert!(memory > 100_000, "{metrics}");
    let exec = [
        "task",
        "exec",
        "--exec-id",
        "e",
        &one,
        "sh",
        "-c",
        "echo out; exit 9",
    ];
    let exec = ctr.run(&exec);
    assert_eq!(exec.status.code(), Some(9), "{exec:?}");
    assert_eq!(String::from_utf8_lossy(&exec.stdout), "out\n");
    ctr.end(&one);
    world.finish().await;
}

#[tokio::test]
async fn output_goes_to_files_and_programs() {
    let world = world!(containerd());
    let ctr = Ctr(&world);
    let [file, named] = ["file", "program"].map(|name| format!("{}-{name}", world.node.id()));
    let dir = world.node.scratch().subdir("logs");
    let log = dir.join("file.log");
    let uri = format!("file://{}", log.display());
    ctr.start(
        &["--log-uri", &uri],
        &file,
        "echo to a file; echo errors >&2",
    );
    soon("the file", async || {
        std::fs::read_to_string(&log).is_ok_and(|text| text == "to a file\nerrors\n")
    })
    .await;
    ctr.forget(&file);

    let program = dir.join("logger");
    let log = dir.join("program.log");
    let script = format!("#!/bin/sh\nexec 5>&-\ncat <&3 > {}\n", log.display());
    std::fs::write(&program, script).unwrap();
    std::os::unix::fs::chown(&program, None, None).unwrap();
    std::fs::set_permissions(
        &program,
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    let uri = format!("binary://{}", program.display());
    ctr.start(&["--log-uri", &uri], &named, "echo to a program");
    soon("the program's file", async || {
        std::fs::read_to_string(&log).is_ok_and(|text| text == "to a program\n")
    })
    .await;
    ctr.forget(&named);
    world.finish().await;
}

#[tokio::test]
async fn what_cannot_be_a_stream_is_refused() {
    let world = world!(containerd());
    let ctr = Ctr(&world);
    let fifo = world.node.scratch().path("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let dir = world.node.scratch().subdir("d");
    let uri = format!("fifo://{}", dir.display());
    let words = [
        "run",
        "--detach",
        "--runtime",
        "io.containerd.orlop.v1",
        "--log-uri",
        &uri,
    ];
    let mut words = words.to_vec();
    words.extend([&*world.busybox, "refused", "true"]);
    let refused = ctr.run(&words);
    assert!(!refused.status.success(), "{refused:?}");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("FIFO") || said.contains("fifo"), "{said}");
    let _ = ctr.run(&["container", "delete", "refused"]);
    world.finish().await;
}

/// What a node's pods cost: of each the median of the time to start it, and its share of memory beside its
/// container's.
struct Cost {
    start: Duration,
    kib: u64,
}

async fn cost(node: NodeBuilder, shim: &str) -> Cost {
    const PODS: usize = 11;
    let world = World::on(node).await;
    let mut times = Vec::new();
    let mut kib = 0;
    // The first one finds nothing in memory yet.
    for number in 0..=PODS {
        let begun = Instant::now();
        let name = format!("pod-{number}");
        let running = world.run_script(&name, "sleep 1000").await;
        if number > 0 {
            times.push(begun.elapsed());
        }
        let shims = processes(&[shim, &running.pod_id]);
        let keepers = processes(&[KEEPER, &running.pod_id]);
        let children = keepers.iter().flat_map(|pid| children(*pid));
        let inits = children.filter(|pid| name_of(*pid) == "pod-init");
        assert_eq!(shims.len(), 1, "a shim for each pod");
        kib += shims
            .iter()
            .chain(&keepers)
            .copied()
            .chain(inits)
            .map(proportional)
            .sum::<u64>();
    }
    times.sort_unstable();
    world.finish().await;
    Cost {
        start: times[PODS / 2],
        kib: kib / (PODS as u64 + 1),
    }
}

fn children(pid: i32) -> Vec<i32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let text = text.unwrap_or_default();
    text.split_ascii_whitespace().flat_map(str::parse).collect()
}

fn name_of(pid: i32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
    name.unwrap_or_default().trim().to_owned()
}

/// A process's memory, what it shares with others divided among them.
fn proportional(pid: i32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).expect("a process");
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    let number = line.and_then(|line| line.split_ascii_whitespace().next());
    number
        .and_then(|number| number.parse().ok())
        .expect("a number")
}

#[tokio::test]
async fn a_pod_costs_a_quarter_of_what_it_costs_with_runcs_shim() {
    orlop_testkit::skip_unless!(machine::can_run_pods());
    if !orlop_testkit::node::is_release() {
        orlop_testkit::skip!("the programs are not optimised");
    }
    let theirs = cost(Node::containerd(), "containerd-shim-runc-v2").await;
    let ours = cost(containerd(), SHIM).await;
    eprintln!(
        "start {:?} (theirs {:?}), memory {} KiB (theirs {} KiB)",
        ours.start, theirs.start, ours.kib, theirs.kib
    );
    assert!(
        ours.kib * 4 <= theirs.kib,
        "{} KiB of {}",
        ours.kib,
        theirs.kib
    );
    assert!(
        ours.start <= theirs.start,
        "{:?} and {:?}",
        ours.start,
        theirs.start
    );
}
