//! What streaming sessions carry and what they cost, side by side with Debian's containerd in the
//! same run and by the same client.
//!
//! `cargo bench -p orlop --bench streams` measures and fails where a promise of SPECIFICATION.md
//! is broken; with `-- short` it measures less and holds it to a looser limit, with `-- ports` it
//! measures nothing but forwarded ports.
#![allow(
    clippy::disallowed_methods,
    reason = "benchmarks read what they wrote themselves, and the kernel's"
)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::large_futures,
    reason = "a benchmark fails by panicking"
)]

mod bare;
mod carry;
#[path = "../pods/cpu.rs"]
mod cpu;
mod ports;
#[path = "../pods/report.rs"]
#[allow(dead_code, reason = "some rows in it are another benchmark's")]
mod report;
mod sessions;

use orlop_cri_api::v1::ExecRequest;
use orlop_streaming::client::{ClientOptions, ClientStreams, Protocol};
use orlop_testkit::{ContainerSpec, Cri, Node, Registry, machine};

use crate::report::Report;

/// How much is measured.
#[derive(Debug, Clone, Copy)]
struct Size {
    /// Of one transfer.
    mib: usize,
    /// Transfers of each kind.
    rounds: usize,
    /// Sessions one after the other.
    sessions: usize,
    /// Sessions side by side.
    crowd: usize,
}

/// A node with a container that sleeps.
struct Subject {
    name: &'static str,
    cri: Cri,
    pod: String,
    container: String,
    node: Node,
}

impl Subject {
    async fn start(name: &'static str, node: Node, image: &str, data: &carry::Data) -> Self {
        let cri = node.cri().await;
        cri.pull(image).await.expect("pull the image");
        let spec = node.pod("streams");
        let pod = cri.run_pod(&spec).await.expect("run a pod");
        let sleeper = ContainerSpec::new("main", image)
            .command(&["sleep", "86400"])
            .mount(data.path(), "/data");
        let container = cri.run(&pod, &spec, &sleeper).await;
        Self {
            name,
            container: container.expect("run a container"),
            pod,
            cri,
            node,
        }
    }

    async fn url(&self, words: &[&str], stdin: bool) -> String {
        let request = ExecRequest {
            container_id: self.container.clone(),
            cmd: words.iter().map(ToString::to_string).collect(),
            stdin,
            stdout: true,
            stderr: true,
            ..ExecRequest::default()
        };
        let answer = self.cri.runtime.clone().exec(request).await;
        answer.expect("an URL").into_inner().url
    }
}

fn over(protocol: Protocol) -> ClientOptions {
    ClientOptions {
        protocol,
        timeout: std::time::Duration::from_mins(2),
        ..ClientOptions::default()
    }
}

fn outputs() -> ClientStreams {
    ClientStreams {
        stdout: Some(Box::new(tokio::io::sink())),
        stderr: Some(Box::new(tokio::io::sink())),
        ..ClientStreams::default()
    }
}

fn main() {
    // `cargo bench` adds flags of its own; only our words count.
    let has = |wanted| std::env::args().any(|word| word == wanted);
    let (short, ports_alone) = (has("short"), has("ports"));
    if let Err(reason) = machine::can_run_pods() {
        println!("nothing can be measured: this machine {reason}");
        std::process::exit(1);
    }
    let size = if short {
        Size {
            mib: 16,
            rounds: 3,
            sessions: 3,
            crowd: 8,
        }
    } else {
        Size {
            mib: 1024,
            rounds: 3,
            sessions: 40,
            crowd: 200,
        }
    };
    let reactor = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let report = reactor.block_on(measure(size, ports_alone));
    let broken = broken_promises(&report, short, ports_alone);
    for promise in &broken {
        println!("BROKEN: {promise}");
    }
    std::process::exit(i32::from(!broken.is_empty()));
}

async fn measure(size: Size, ports_alone: bool) -> Report {
    let (_registry, image) = Registry::with_busybox().await;
    let data = carry::Data::make(size.mib);
    let ours = Node::orlop().start().await;
    let mut subjects = vec![Subject::start("orlop", ours, &image, &data).await];
    match machine::has_program("containerd") {
        Ok(()) => {
            let theirs = Node::containerd().start().await;
            subjects.push(Subject::start("containerd", theirs, &image, &data).await);
        }
        Err(reason) => println!("there is no containerd to compare with: {reason}"),
    }
    let mut report = Report::default();
    // They take turns, so that both meet the same noise.
    for _ in 0..size.rounds {
        for subject in &subjects {
            if !ports_alone {
                carry::run(subject, &data, &mut report).await;
            }
            ports::run(subject, size, &mut report).await;
        }
    }
    if !ports_alone {
        carry::whole(&subjects[0], &data).await;
        for subject in &subjects {
            sessions::run(subject, size, &mut report).await;
        }
    }
    // First of all: a peer may not end any more after two hundred sessions at once.
    println!("{report}");
    for Subject {
        cri, node, name, ..
    } in subjects
    {
        let is_peer = node.is_peer();
        drop(cri);
        let ended = tokio::spawn(node.finish()).await;
        assert!(ended.is_ok() || is_peer, "{name} did not end well");
        if ended.is_err() {
            println!("{name} could not end its pod; what it left was killed");
        }
    }
    report
}

/// How much worse a few transfers of an unoptimised build may be than what is promised.
const LEEWAY: f64 = 4.0;

/// The part of containerd's time that a command in a session of its own takes.
const SESSION: f64 = 0.25;

/// The promises of SPECIFICATION.md that these results break. What is promised and was not
/// measured is broken, too.
fn broken_promises(report: &Report, short: bool, ports_alone: bool) -> Vec<String> {
    let leeway = if short { LEEWAY } else { 1.0 };
    let mut broken = Vec::new();
    let rates: &[_] = if ports_alone {
        &[ports::THROUGHPUT]
    } else {
        &[ports::THROUGHPUT, carry::DOWN_SPDY, carry::DOWN_WEBSOCKET]
    };
    for &row in rates {
        let of = |subject| report.median(row, subject);
        match (of("orlop"), of("containerd")) {
            (Some(ours), Some(theirs)) if ours * leeway < 2.0 * theirs => broken.push(format!(
                "{row}: {ours:.0} MB/s, promised {:.1} times containerd's {theirs:.0}",
                2.0 / leeway
            )),
            (Some(_), Some(_)) => {}
            _ => broken.push(format!("{row}: was not measured on both sides")),
        }
    }
    if ports_alone {
        return broken;
    }
    let limits = [
        (carry::GROWTH, Some(f64::from(16 << 10) * leeway)),
        (sessions::CROWD_FAILED, Some(0.0)),
        (
            sessions::COMMAND,
            report
                .median(sessions::COMMAND, "containerd")
                .map(|theirs| theirs * SESSION * leeway),
        ),
    ];
    for (row, limit) in limits {
        match (report.median(row, "orlop"), limit) {
            (Some(value), Some(limit)) if value > limit => {
                broken.push(format!("{row}: {value:.2}, promised at most {limit:.2}"));
            }
            (Some(_), Some(_)) => {}
            _ => broken.push(format!("{row}: was not measured")),
        }
    }
    broken
}
