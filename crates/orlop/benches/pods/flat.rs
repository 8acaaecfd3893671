//! What a pod costs on a node that has many of them already, and on a bridge that others use, too.
//!
//! Its pods run on the runtime that costs nothing (`testkit/examples/idle_runtime.rs`), so that
//! what is measured is orlop alone.
//!
//! `ORLOP_BENCH_RUNTIME` has another runtime, `ORLOP_BENCH_MANY`, `_FOREIGN` and `_TIMED` other
//! numbers of pods, of ports of others and of pods that are timed, and `ORLOP_BENCH_BESIDE` runs a
//! profiler beside what is timed (`$PID` is the daemon, `$WHEN` what is timed).

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use orlop_testkit::{Node, PodSpec};
use serde_json::json;
use tonic::Status;

use crate::life::{Life, PACE};
use crate::report::{self, Report};
use crate::{Size, Subject, crowd, foreign, memory, rows, subject, traced};

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
        let mut others = foreign::ports(subject.node.id(), ports);
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
    let request = orlop_cri_api::v1::ListPodSandboxStatsRequest::default();
    let stats = subject
        .cri
        .runtime
        .clone()
        .list_pod_sandbox_stats(request)
        .await;
    assert_eq!(stats.expect("stats").into_inner().stats.len(), many);
    let held = (descriptors(&subject) - before) as f64 / many as f64;
    report.number(rows::DESCRIPTORS, "", report::ORLOP, held);
    // Their interfaces look for routers for so long, which all others hear.
    tokio::time::sleep(Duration::from_secs(20)).await;
    let grown = memory::of_runtime(&subject.node) - empty;
    let per_pod = grown / many as f64;
    report.number("memory per pod, bridge", "kB", report::ORLOP, per_pod);
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

async fn time(subject: &Subject, name: &str, pods: usize) -> Vec<Life> {
    let mut lives = Vec::new();
    for n in 0..pods {
        let pod = subject.node.pod(&format!("{name}-{n}")).own_network();
        lives.push(live(subject, &pod).await.expect("a pod's whole life"));
        tokio::time::sleep(PACE).await;
    }
    lives
}

async fn live(subject: &Subject, pod: &PodSpec) -> Result<Life, Status> {
    let cri = &subject.cri;
    let spec = subject.container();
    let mut life = Life::new();
    let pod_id = cri.run_pod(pod).await?;
    life.lap("run");
    for step in ["keeper", "network", "files"] {
        life.add(step, traced::step(cri, &pod_id, step).await?);
    }
    life.go_on();
    let id = cri.create(&pod_id, pod, &spec).await?;
    life.lap("create");
    cri.start(&id).await?;
    life.lap("start");
    for _ in 0..3 {
        cri.exec(&id, &["true"]).await?;
        life.lap("exec");
    }
    cri.stop(&id, 0).await?;
    cri.remove(&id).await?;
    life.lap("gone");
    cri.stop_pod(&pod_id).await?;
    life.lap("stop");
    cri.remove_pod(&pod_id).await?;
    life.lap("remove");
    life.add_sum("up", &["run", "create", "start"]);
    life.add_sum("down", &["stop", "remove"]);
    Ok(life)
}

fn tell(report: &mut Report, when: &str, lives: &[Life]) {
    for life in lives {
        // A row's name outlives the report of a short program.
        let row = |step| &*format!("{when}: {step}").leak();
        life.tell(report::ORLOP, report, row);
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
