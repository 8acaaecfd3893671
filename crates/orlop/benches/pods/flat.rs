//! What a pod costs on a node that has many of them already, and on a bridge that others use, too.
//!
//! Its pods run on the runtime that costs nothing (`testkit/examples/idle_runtime.rs`), so that
//! what is measured is orlop alone; in network and mount namespaces of its own, so that nothing
//! else that this machine does is measured, and the node's rules are not touched.
//!
//! `ORLOP_BENCH_RUNTIME` has another runtime, `ORLOP_BENCH_MANY`, `_FOREIGN` and `_TIMED` other numbers of
//! pods, of ports of others and of pods that are timed, and `ORLOP_BENCH_BESIDE` runs a profiler beside what is timed (`$PID` is the daemon, `$WHEN` what is timed).

use std::fmt::Write as _;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use orlop_testkit::{ContainerSpec, Node, PodSpec};
use serde_json::json;
use tonic::Status;

use crate::crowd::{self, WORKLOAD};
use crate::report::{self, Report};
use crate::{Size, Subject, memory, subject, traced};

/// What the daemon holds open for each pod, statistics having been asked for.
pub(crate) const DESCRIPTORS: &str = "descriptors per pod";

/// How the bench knows that it stands apart already.
const APART: &str = "ORLOP_BENCH_APART";

/// Moves this program into namespaces of its own, before it has a second thread.
pub(crate) fn stand_apart() {
    if std::env::var_os(APART).is_some() {
        return;
    }
    let own = std::env::current_exe().expect("our own path");
    let error = Command::new("unshare")
        .args(["--net", "--mount", "--propagation", "private"])
        .args(["sh", "-c", "ip link set lo up && exec \"$0\" \"$@\""])
        .arg(own)
        .args(std::env::args_os().skip(1))
        .env(APART, "1")
        .exec();
    panic!("standing apart with unshare(1): {error}");
}

/// The first pods of a node, the same on a bridge with foreign ports, and the same among many pods.
pub(crate) async fn run(image: &str, size: Size, report: &mut Report) {
    let runtime = runtime();
    let program = runtime.to_str().expect("a path that is a text");
    let subject = subject(report::ORLOP, Node::orlop(), program, image).await;
    let subject = subject.expect("the runtime works");
    write_network(&subject);
    let timed = wanted("TIMED", size.timed);
    let many = wanted("MANY", size.many);
    let ports = wanted("FOREIGN", size.foreign);
    // Warms up, and makes the bridge.
    time(&subject, "warm", 3).await;
    beside(&subject, "first");
    let few = time(&subject, "first", timed).await;
    tell(report, "first", &few);
    if ports > 0 {
        let mut others = foreign_ports(&subject, ports);
        beside(&subject, "foreign");
        let foreign = time(&subject, "foreign", timed).await;
        tell(report, "foreign", &foreign);
        // With its namespace go the ports.
        others
            .kill()
            .and_then(|()| others.wait())
            .expect("end what is beside");
        std::thread::sleep(Duration::from_secs(5));
    }
    let empty = memory::of_runtime(&subject.node);
    let before = descriptors(&subject);
    let pods = (0..many).map(|n| {
        let pod = subject.node.pod(&format!("many-{n}")).own_network();
        if n % 10 == 0 {
            pod.host_port(20_000 + n as u16, 80)
        } else {
            pod
        }
    });
    let up = crowd::bring_up(&subject, pods.collect()).await;
    assert_eq!(up.pods.len(), many, "all of the crowd are up");
    let request = orlop_cri::v1::ListPodSandboxStatsRequest::default();
    let stats = subject
        .cri
        .runtime
        .clone()
        .list_pod_sandbox_stats(request)
        .await;
    assert_eq!(stats.expect("stats").into_inner().stats.len(), many);
    let held = (descriptors(&subject) - before) as f64 / many as f64;
    report.number(DESCRIPTORS, "", report::ORLOP, held);
    let full = memory::of_runtime(&subject.node);
    let grown = full.proportional_kb as f64 - empty.proportional_kb as f64;
    report.number(
        "memory per pod, bridge",
        "kB",
        report::ORLOP,
        grown / many as f64,
    );
    // Their interfaces look for routers for so long, which all others hear.
    tokio::time::sleep(Duration::from_secs(20)).await;
    beside(&subject, "among");
    let among = time(&subject, "among", timed).await;
    tell(report, "among many", &among);
    for pod in &up.pods {
        subject.cri.stop_pod(pod).await.expect("stop");
        subject.cri.remove_pod(pod).await.expect("remove");
    }
    subject.node.finish().await;
}

/// A number of the bench's, or the one that the environment has for it.
fn wanted(name: &str, usual: usize) -> usize {
    let wanted = std::env::var(format!("ORLOP_BENCH_{name}")).ok();
    wanted.map_or(usual, |wanted| wanted.parse().expect("a number"))
}

/// Runs what the environment names beside what is timed: a profiler, with the daemon's number.
fn beside(subject: &Subject, when: &str) {
    let Ok(command) = std::env::var("ORLOP_BENCH_BESIDE") else {
        return;
    };
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(command).env("WHEN", when);
    shell.env("PID", subject.node.pid().to_string());
    // It is waited for on a thread that ends with the bench at the latest.
    std::thread::spawn(move || shell.status());
    std::thread::sleep(Duration::from_secs(2));
}

/// What one pod's calls took.
type Life = Vec<(&'static str, Duration)>;

async fn time(subject: &Subject, name: &str, pods: usize) -> Vec<Life> {
    let mut lives = Vec::new();
    for n in 0..pods {
        let pod = subject.node.pod(&format!("{name}-{n}")).own_network();
        lives.push(life(subject, &pod).await.expect("a pod's whole life"));
        // As a kubelet's pace is: the kernel has torn down the last one.
        tokio::time::sleep(Duration::from_millis(60)).await;
    }
    lives
}

async fn life(subject: &Subject, pod: &PodSpec) -> Result<Life, Status> {
    let cri = &subject.cri;
    let words: Vec<&str> = WORKLOAD.split(' ').collect();
    let spec = ContainerSpec::new("main", &subject.image).command(&words);
    let mut life = Life::new();
    let begin = Instant::now();
    let mut last = begin;
    let mut lap = |step, took: Option<Duration>| {
        life.push((step, took.unwrap_or(last.elapsed())));
        last = Instant::now();
    };
    let pod_id = cri.run_pod(pod).await?;
    lap("run", None);
    for step in ["keeper", "network", "files"] {
        let took = traced::step(cri, &pod_id, step).await?;
        lap(step, Some(took));
    }
    let id = cri.create(&pod_id, pod, &spec).await?;
    lap("create", None);
    cri.start(&id).await?;
    lap("start", None);
    for _ in 0..3 {
        cri.exec(&id, &["true"]).await?;
        lap("exec", None);
    }
    cri.stop(&id, 0).await?;
    cri.remove(&id).await?;
    lap("gone", None);
    cri.stop_pod(&pod_id).await?;
    lap("stop", None);
    cri.remove_pod(&pod_id).await?;
    lap("remove", None);
    let took = |wanted: &str| {
        life.iter()
            .filter(|(step, _)| *step == wanted)
            .map(|(_, t)| *t)
            .sum::<Duration>()
    };
    let (up, down) = (
        took("run") + took("create") + took("start"),
        took("stop") + took("remove"),
    );
    life.push(("up", up));
    life.push(("down", down));
    Ok(life)
}

fn tell(report: &mut Report, when: &str, lives: &[Life]) {
    for (step, took) in lives.iter().flatten() {
        // A row's name outlives the report of a short program.
        let row: &'static str = format!("{when}: {step}").leak();
        report.time(row, report::ORLOP, *took);
    }
}

/// A bridge as nodes have it: with masquerading and port maps.
fn write_network(subject: &Subject) {
    let scratch = subject.node.scratch();
    let config = json!({
        "cniVersion": "1.0.0",
        "name": "flat",
        "plugins": [
            {
                "type": "bridge",
                "bridge": subject.node.id(),
                "isGateway": true,
                "ipMasq": true,
                "hairpinMode": true,
                "ipam": {
                    "type": "host-local",
                    "dataDir": scratch.path("ipam"),
                    "ranges": [[{ "subnet": "10.88.0.0/16" }]],
                    "routes": [{ "dst": "0.0.0.0/0" }],
                },
            },
            { "type": "portmap", "capabilities": { "portMappings": true } },
        ],
    });
    let file = scratch.subdir("cni").join("10-test.conflist");
    fs::write(file, config.to_string()).expect("write the network's configuration");
    // The daemon watches the directory.
    std::thread::sleep(Duration::from_millis(500));
}

/// Ports of others, whose far ends are elsewhere and hear what is sent to all.
fn foreign_ports(subject: &Subject, count: usize) -> Child {
    let mut elsewhere = Command::new("unshare");
    elsewhere.args(["--net", "sh", "-c"]);
    let quiet = "sysctl -qw net.ipv6.conf.default.disable_ipv6=1; exec sleep 600";
    let elsewhere = elsewhere.arg(quiet).spawn().expect("run unshare(1)");
    std::thread::sleep(Duration::from_secs(1));
    let (bridge, there) = (subject.node.id(), elsewhere.id());
    let (mut here, mut far) = (String::new(), String::new());
    for n in 0..count {
        let peer = format!("type veth peer name fp{n} netns {there}");
        let _ = writeln!(
            here,
            "link add fo{n} {peer}\nlink set fo{n} master {bridge} up"
        );
        let _ = writeln!(far, "link set fp{n} up");
    }
    ip(Command::new("ip"), &here);
    let mut inside = Command::new("nsenter");
    inside.args(["--net", "--target", &there.to_string(), "ip"]);
    ip(inside, &far);
    // Their own chatter (duplicate address detection) is over.
    std::thread::sleep(Duration::from_secs(20));
    elsewhere
}

fn ip(mut program: Command, batch: &str) {
    let file = std::env::temp_dir().join(format!("orlop-bench-{}", std::process::id()));
    fs::write(&file, batch).expect("write");
    let status = program
        .arg("-batch")
        .arg(&file)
        .status()
        .expect("run ip(8)");
    let _ = fs::remove_file(&file);
    assert!(status.success(), "{status}");
}

fn descriptors(subject: &Subject) -> usize {
    let dir = format!("/proc/{}/fd", subject.node.pid());
    fs::read_dir(dir).expect("look").count()
}

/// `cargo build -p orlop-testkit --example idle_runtime` makes it.
fn runtime() -> PathBuf {
    let own = std::env::current_exe().expect("our own path");
    let profile = own
        .parent()
        .and_then(|deps| deps.parent())
        .expect("TARGET/PROFILE/deps");
    if let Some(other) = std::env::var_os("ORLOP_BENCH_RUNTIME") {
        return other.into();
    }
    profile.join("examples/idle_runtime")
}
