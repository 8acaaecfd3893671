//! What strangers can make the node spend, and where it ends. `docs/reference/security.md` has the table.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use orlop_cri_api::v1;
use orlop_testkit::cri::read_log;
use orlop_testkit::{ContainerSpec, Node, assert_contains, nest};

use crate::world::{World, ours, world};

/// More directories within each other than there are calls on any stack.
const NESTED: usize = 15_000;

/// The root directory, as the node sees it, of the container's process that has this argument. It has
/// that a moment after the container's start.
async fn root_of(argument: &str) -> PathBuf {
    let waiting = async {
        loop {
            let processes = fs::read_dir("/proc").expect("list /proc").flatten();
            let mut paths = processes.map(|process| process.path());
            if let Some(path) = paths.find(|path| sleeps(path, argument)) {
                return path.join("root");
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let found = tokio::time::timeout(Duration::from_secs(20), waiting).await;
    found.expect("the container's process")
}

fn sleeps(process: &Path, argument: &str) -> bool {
    let line = fs::read(process.join("cmdline")).unwrap_or_default();
    let mut words = line.split(|byte| *byte == 0);
    words.next() == Some(b"sleep") && words.next() == Some(argument.as_bytes())
}

#[tokio::test]
async fn a_container_that_nested_its_directories_without_end_is_removed() {
    let world = ours!();
    let argument = format!("70{}", std::process::id());
    let spec = world.container("main").command(&["sleep", &argument]);
    let running = world.run_container("nested", &spec).await;
    let root = root_of(&argument).await;
    tokio::task::spawn_blocking(move || nest(&root, NESTED))
        .await
        .expect("nested");
    let daemon = world.node.pid();
    // What asks for the size of its layer looks into all of it.
    let stats = world.cri.stats(&running.id).await;
    let layer = stats.expect("statistics").writable_layer.expect("a layer");
    assert!(layer.inodes_used.expect("inodes").value >= NESTED as u64);
    world.cri.stop_pod(&running.pod_id).await.expect("stop");
    world.cri.remove(&running.id).await.expect("remove");
    world.cri.remove_pod(&running.pod_id).await.expect("remove");
    world.cri.version().await.expect("the daemon answers");
    assert_eq!(world.node.pid(), daemon);
    let left = files_named(&world.node.root().join("pods"), &running.id);
    assert!(left.is_empty(), "left behind: {left:?}");
    world.finish().await;
}

/// What has this name below a directory.
fn files_named(directory: &Path, name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_name() == name {
            found.push(entry.path());
        } else if entry.path().is_dir() {
            found.extend(files_named(&entry.path(), name));
        }
    }
    found
}

#[tokio::test]
async fn the_daemon_holds_no_file_of_a_stopped_pod_open() {
    let mut world = ours!();
    let running = world.run_script("running", "sleep 600").await;
    let stopped = world.run_script("stopped", "sleep 600").await;
    world.cri.stop_pod(&stopped.pod_id).await.expect("stop");
    let held = |world: &World, pod: &str| {
        let directory = format!("/proc/{}/fd", world.node.pid());
        let entries = std::fs::read_dir(directory).expect("read").flatten();
        let targets = entries.filter_map(|entry| std::fs::read_link(entry.path()).ok());
        let named = targets.filter(|target| target.to_string_lossy().contains(pod));
        named.collect::<Vec<_>>()
    };
    for _ in 0..2 {
        assert_eq!(held(&world, &stopped.pod_id), Vec::<PathBuf>::new());
        assert!(
            !held(&world, &running.pod_id).is_empty(),
            "it looks wrongly"
        );
        world.crash().await;
    }
    // What is recorded of it all the same.
    world.cri.remove_pod(&stopped.pod_id).await.expect("remove");
    world.finish().await;
}

#[tokio::test]
async fn a_running_pod_takes_five_descriptors_of_the_daemon_at_most() {
    const PODS: usize = 8;
    let world = ours!();
    let held = || std::fs::read_dir(format!("/proc/{}/fd", world.node.pid())).map(Iterator::count);
    let (mut before, spec) = (0, ContainerSpec::new("main", &world.busybox));
    for n in 0..=PODS {
        let pod = world.node.pod(&format!("pod-{n}")).own_network();
        let pod_id = world.cri.run_pod(&pod).await.expect("run a pod");
        let spec = spec.clone().command(&["sleep", "600"]);
        let id = world.cri.create(&pod_id, &pod, &spec).await;
        world.cri.start(&id.expect("create")).await.expect("start");
        ask_all_figures(&world).await;
        // The first one of all has what the node needs once.
        if n == 0 {
            before = held().expect("count");
        }
    }
    ask_all_figures(&world).await;
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let more = held().expect("count").saturating_sub(before);
        if more <= 5 * PODS {
            break;
        }
        assert!(Instant::now() < deadline, "{more} for {PODS} pods");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    world.finish().await;
}

/// Statistics and metrics of all pods and containers.
async fn ask_all_figures(world: &World) {
    let mut runtime = world.cri.runtime();
    let pods = runtime.list_pod_sandbox_stats(v1::ListPodSandboxStatsRequest::default());
    let pods = pods.await.expect("statistics of pods").into_inner().stats;
    let figures = pods
        .iter()
        .filter_map(|pod| pod.linux.as_ref()?.cpu.as_ref());
    assert_eq!(figures.count(), pods.len(), "each has its own");
    let containers = runtime.list_container_stats(v1::ListContainerStatsRequest::default());
    let containers = containers.await.expect("statistics of containers");
    assert_eq!(containers.into_inner().stats.len(), pods.len());
    let metrics = runtime.list_pod_sandbox_metrics(v1::ListPodSandboxMetricsRequest::default());
    let metrics = metrics.await.expect("metrics").into_inner().pod_metrics;
    assert_eq!(metrics.len(), pods.len());
}

#[tokio::test]
async fn output_beyond_a_message_is_cut_and_no_error() {
    let world = ours!();
    let running = world.run_script("loud", "sleep 600").await;
    let much = "head -c 20000000 /dev/zero; head -c 20000000 /dev/zero >&2; exit 7";
    let answer = world.cri.exec(&running.id, &["sh", "-c", much]).await;
    let answer = answer.expect("an answer that fits");
    assert_eq!(answer.exit_code, 7);
    let (out, err) = (answer.stdout.len(), answer.stderr.len());
    assert!(out + err < 16 << 20, "{out} and {err} bytes");
    assert!(
        out > 7 << 20 && err > 7 << 20,
        "{out} and {err} bytes: each has its half"
    );
    world.finish().await;
}

#[tokio::test]
async fn commands_that_print_at_the_same_time_share_a_bounded_memory() {
    const COMMANDS: usize = 20;
    let world = world!(Node::orlop().drop_in("[containers]\nexec_output_memory = \"1MiB\"\n"));
    let running = world.run_script("choir", "sleep 600").await;
    // All have printed before one of them ends.
    let script = "head -c 1000000 /dev/zero; touch /$0; \
                  while [ ! -e /go ]; do sleep 0.05; done";
    let names: Vec<String> = (0..COMMANDS)
        .map(|number| format!("did-{number}"))
        .collect();
    let sing = join_all(names.iter().map(|name| {
        let words = ["sh", "-c", script, name.as_str()];
        let (cri, id) = (&world.cri, &running.id);
        async move { cri.exec(id, &words).await.expect("exec").stdout.len() }
    }));
    let (lengths, ()) = tokio::join!(sing, let_go(&world, &running.id, COMMANDS));
    let all: usize = lengths.iter().sum();
    assert!(all <= (1 << 20) + COMMANDS * (16 << 10), "{lengths:?}");
    assert!(
        lengths.iter().all(|length| *length >= 16 << 10),
        "{lengths:?}"
    );
    // It is all free again.
    let words = ["head", "-c", "1000000", "/dev/zero"];
    let whole = world.cri.exec(&running.id, &words).await.expect("exec");
    assert_eq!(whole.stdout.len(), 1_000_000);
    world.finish().await;
}

/// Lets commands end once so many have printed.
async fn let_go(world: &World, id: &str, commands: usize) {
    let go = format!("[ $(ls / | grep -c did-) = {commands} ] && touch /go");
    let waiting = async {
        loop {
            let asked = world.cri.exec(id, &["sh", "-c", &go]).await;
            if asked.expect("exec").exit_code == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let done = tokio::time::timeout(Duration::from_mins(1), waiting).await;
    done.expect("all have printed");
}

#[tokio::test]
async fn a_log_beyond_its_rate_loses_lines_and_says_how_many() {
    let world = world!(Node::orlop().drop_in("[containers]\nlog_rate = \"8KiB\"\n"));
    let line = "x".repeat(100);
    let chatter = format!("i=0; while [ $i -lt 3000 ]; do echo {line}; i=$((i+1)); done; exit 3");
    let (code, kept) = world
        .output("chatter", &world.container("main").shell(&chatter))
        .await;
    assert_eq!(code, 3, "it is not held up");
    let whole = kept.lines().filter(|kept| *kept == line).count();
    assert!(whole > 0 && whole < 3000, "{whole} lines");
    let running = world.run_script("brief", "echo one; echo two").await;
    world.cri.wait_exited(&running.id).await;
    assert_eq!(
        running.stdout(),
        "one\ntwo\n",
        "within the rate all is kept"
    );
    let running = world.run_script("noted", &chatter).await;
    world.cri.wait_exited(&running.id).await;
    let notes = running.stream("stderr");
    assert_contains!(notes, "were lost: more than 8192 bytes per second");
    assert!(notes.contains("containers.log_rate"), "{notes}");
    world.finish().await;
}

#[tokio::test]
async fn a_log_beyond_its_size_loses_lines_until_it_is_rotated() {
    const LINES: usize = 3000;
    const SIZE: u64 = 64 << 10;
    let world = world!(Node::orlop().drop_in("[containers]\nlog_size = \"64KiB\"\n"));
    let line = "x".repeat(100);
    let chatter = format!(
        "i=0; while [ $i -lt {LINES} ]; do echo {line}; i=$((i+1)); done; touch /tmp/said
         while [ ! -e /tmp/go-on ]; do sleep 0.05; done; echo after"
    );
    let running = world.run_script("chatter", &chatter).await;
    let wait = "while [ ! -e /tmp/said ]; do sleep 0.05; done";
    let waited = world.cri.exec(&running.id, &["sh", "-c", wait]).await;
    waited.expect("it is not held up");
    let log = running.pod.logs().join("main.log");
    let old = running.pod.logs().join("main.log.1");
    fs::rename(&log, &old).expect("rotate");
    world.cri.reopen_log(&running.id).await.expect("reopen");
    let go_on = ["touch", "/tmp/go-on"];
    world.cri.exec(&running.id, &go_on).await.expect("touch");
    world.cri.wait_exited(&running.id).await;

    let length = fs::metadata(&old).expect("the old log").len();
    // Beside what it may have there are two notes.
    assert!(length > SIZE / 2 && length < SIZE + 1024, "{length} bytes");
    let (mut kept, mut lost, mut after) = (0, 0, 0);
    for entry in [read_log(&old), read_log(&log)].concat() {
        let text = String::from_utf8_lossy(&entry.content).into_owned();
        match text.strip_prefix("[orlop: ") {
            Some(note) => {
                assert!(note.contains("containers.log_size"), "{note}");
                lost += lines_lost(note);
            }
            None if text == line => kept += 1,
            None => {
                assert_eq!(text, "after");
                after += 1;
            }
        }
    }
    assert!(kept < LINES, "{kept} lines");
    assert_eq!(kept + lost, LINES, "each line is there or counted");
    assert_eq!(after, 1, "the new file has room");
    world.finish().await;
}

/// How many lines a note says to be lost: `N bytes of output (M lines) were lost: …`.
fn lines_lost(note: &str) -> usize {
    let count = note
        .split_once('(')
        .and_then(|(_, rest)| rest.split_once(' '));
    let (count, _) = count.expect("a number of lines");
    count.parse().expect("a number")
}
