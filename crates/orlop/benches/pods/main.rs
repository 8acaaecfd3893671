//! What a pod costs, over CRI, side by side with Debian's containerd in the same run.
//!
//! orlop runs on its own runtime and, since that is what it can be compared on, on the reference's.
//!
//! `cargo bench -p orlop --bench pods` measures and fails where a promise of SPECIFICATION.md is
//! broken; with `-- short` it measures less and holds what is compared to a looser limit, with
//! `-- statistics` it measures nothing but statistics and metrics, of orlop alone, with `-- flat`
//! nothing but how the cost of a pod grows with those that are there, of orlop alone, too. With
//! `-- floor` it measures nothing but what the kernel takes.
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

mod apart;
mod cpu;
mod crowd;
mod flat;
mod floor;
mod foreign;
mod life;
mod memory;
mod polling;
mod probes;
mod processes;
mod promises;
mod report;
mod rounds;
mod rows;
mod statistics;
mod throughput;
mod traced;

use std::path::PathBuf;
use std::time::Duration;

use orlop_testkit::{ContainerSpec, Cri, Node, NodeBuilder, Registry, machine, node};

use crate::floor::Floor;
use crate::report::Report;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// All but the last.
    Pods,
    Statistics,
    Flat,
    Floor,
}

/// How much is measured.
#[derive(Debug, Clone, Copy)]
struct Size {
    /// Pods one after the other.
    rounds: usize,
    /// Lives back to back.
    lives: usize,
    /// Times that these are measured, of which the middle counts.
    runs: usize,
    /// Seconds of commands at a pace.
    probing: u32,
    /// Pods side by side.
    crowd: usize,
    /// Pods with a network of their own, side by side.
    networked: usize,
    /// Seconds of watching an idle node.
    idle: u64,
    /// Seconds of asking all that a kubelet asks.
    polling: u64,
    /// Pods that stand while it is measured what one more costs.
    many: usize,
    /// Ports of the bridge that are none of ours.
    foreign: usize,
    /// Pods whose calls are timed, each time.
    timed: usize,
}

const FULL: Size = Size {
    rounds: 40,
    lives: 200,
    runs: 5,
    probing: 10,
    crowd: 100,
    networked: 200,
    idle: 5,
    polling: 60,
    many: 1000,
    foreign: 400,
    timed: 20,
};

const SHORT: Size = Size {
    rounds: 3,
    lives: 8,
    runs: 1,
    probing: 1,
    crowd: 4,
    networked: 4,
    idle: 1,
    polling: 2,
    many: 20,
    foreign: 20,
    timed: 3,
};

/// A node with a pulled image.
struct Subject {
    name: &'static str,
    image: String,
    cri: Cri,
    node: Node,
    /// The runtime that its pods run on.
    runtime: PathBuf,
}

impl Subject {
    /// The container of a pod of the bench's.
    fn container(&self) -> ContainerSpec {
        let words: Vec<&str> = processes::WORKLOAD.split(' ').collect();
        ContainerSpec::new("main", &self.image).command(&words)
    }
}

fn main() {
    // `cargo bench` adds flags of its own; only our words count.
    let has = |wanted: &str| std::env::args().any(|word| word == wanted);
    let kinds = [
        ("statistics", Kind::Statistics),
        ("flat", Kind::Flat),
        ("floor", Kind::Floor),
    ];
    let kind = kinds.into_iter().find(|(word, _)| has(word));
    let kind = kind.map_or(Kind::Pods, |(_, kind)| kind);
    if let Err(reason) = machine::can_run_pods() {
        println!("nothing can be measured: this machine {reason}");
        std::process::exit(1);
    }
    if kind == Kind::Flat {
        apart::stand_apart();
    }
    let reactor = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let size = if has("short") { SHORT } else { FULL };
    let report = match kind {
        Kind::Statistics => reactor.block_on(measure_statistics(size)),
        Kind::Flat => reactor.block_on(measure_flat(size)),
        Kind::Floor => {
            let mut report = Report::default();
            floor(size, &mut report);
            report
        }
        Kind::Pods => reactor.block_on(measure(size)),
    };
    println!("{report}");
    let broken = promises::broken(&report, kind, has("short"));
    for promise in &broken {
        println!("BROKEN: {promise}");
    }
    std::process::exit(i32::from(!broken.is_empty()));
}

async fn measure(size: Size) -> Report {
    let (_registry, image) = Registry::with_busybox().await;
    let mut report = Report::default();
    let own = node::run_binary().display().to_string();
    let ours = match subject(report::ORLOP, Node::orlop(), &own, &image).await {
        Ok(ours) => ours,
        Err(reason) => {
            println!("nothing can be measured: {reason}");
            return report;
        }
    };
    let on_runc = subject(report::ON_RUNC, Node::orlop(), "runc", &image).await;
    let mut subjects = vec![ours, on_runc.expect("has a runtime")];
    match machine::has_program("containerd") {
        Ok(()) => {
            let theirs = subject(report::CONTAINERD, Node::containerd(), "runc", &image).await;
            subjects.push(theirs.expect("has a runtime"));
        }
        Err(reason) => println!("containerd is not compared with: {reason}"),
    }
    floor(size, &mut report);
    rounds::run(&subjects, size, &mut report).await;
    for mut subject in subjects {
        if subject.name != report::ON_RUNC {
            subject = crowd::run(subject, size, &mut report).await;
        }
        throughput::run(&subject, size, &mut report).await;
        if subject.name != report::ON_RUNC {
            probes::run(&subject, size, &mut report).await;
        }
        subject.node.finish().await;
    }
    report
}

/// Measures the floor. If it cannot be made here, the promises that are held to it are broken.
fn floor(size: Size, report: &mut Report) {
    let done = Floor::new().and_then(|floor| measure_floor(&floor, size, report));
    if let Err(error) = done {
        println!("the floor cannot be measured: {error}");
    }
}

/// One pod after the other, timed like those of the other subjects.
fn measure_floor(floor: &Floor, size: Size, report: &mut Report) -> std::io::Result<()> {
    for round in 0..=size.rounds {
        let life = floor.cycle(&format!("round-{round}"))?;
        std::thread::sleep(life::PACE);
        // The first one warms up.
        if round > 0 {
            let up = life.run + life.start;
            report.time(rows::NETWORK, report::FLOOR, life.network);
            report.time(rows::RUN, report::FLOOR, life.run);
            report.time(rows::START, report::FLOOR, life.start);
            report.time(rows::POD_UP, report::FLOOR, up);
            report.time(rows::EXEC, report::FLOOR, life.exec);
            report.time(rows::POD_DOWN, report::FLOOR, life.down);
        }
    }
    for _ in 0..size.runs {
        for (row, clients) in [(rows::ONE_CLIENT, 1), (rows::FOUR_CLIENTS, 4)] {
            std::thread::sleep(Duration::from_secs(1));
            let lives = size.lives.div_ceil(clients);
            let took = floor.throughput(clients, lives)?;
            let done = (clients * lives) as f64;
            report.number(row, "pods/s", report::FLOOR, done / took.as_secs_f64());
        }
    }
    Ok(())
}

async fn measure_statistics(size: Size) -> Report {
    let (_registry, image) = Registry::with_busybox().await;
    let mut report = Report::default();
    let own = node::run_binary().display().to_string();
    match subject(report::ORLOP, Node::orlop(), &own, &image).await {
        Ok(ours) => statistics::run(ours, size, &mut report).await,
        Err(reason) => println!("nothing is measured: {reason}"),
    }
    report
}

async fn measure_flat(size: Size) -> Report {
    let (_registry, image) = Registry::with_busybox().await;
    let mut report = Report::default();
    floor(size, &mut report);
    flat::run(&image, size, &mut report).await;
    report
}

async fn subject(
    name: &'static str,
    node: NodeBuilder,
    runtime: &str,
    image: &str,
) -> Result<Subject, String> {
    let node = node.runtime(runtime).start().await;
    let cri = node.cri().await;
    cri.pull(image).await.expect("pull the image");
    Ok(Subject {
        name,
        image: image.to_owned(),
        cri,
        node,
        runtime: machine::program(runtime)?,
    })
}
