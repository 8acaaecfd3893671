//! What a pod costs, over CRI, side by side with Debian's containerd in the same run.
//!
//! `cargo bench -p orlop --bench pods` measures and fails where a promise of
//! SPECIFICATION.md is broken; with `-- short` it measures less and holds it to a looser limit,
//! with `-- statistics` it measures nothing but statistics and metrics, of orlop alone, with `-- flat`
//! nothing but how the cost of a pod grows with those that are there, of orlop alone, too.
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

mod cpu;
mod crowd;
mod flat;
mod memory;
mod polling;
mod promises;
mod report;
mod rounds;
mod statistics;
mod traced;

use std::path::PathBuf;

use orlop_cri::v1::StatusRequest;
use orlop_testkit::{Cri, ImageBuilder, Node, NodeBuilder, Registry, machine};

use crate::report::Report;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Full,
    Short,
    Statistics,
    Flat,
}

/// How much is measured.
#[derive(Debug, Clone, Copy)]
struct Size {
    /// Pods one after the other.
    rounds: usize,
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
    crowd: 100,
    networked: 200,
    idle: 5,
    polling: 60,
    many: 500,
    foreign: 400,
    timed: 20,
};

const SHORT: Size = Size {
    rounds: 3,
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
    fn is_ours(&self) -> bool {
        !self.node.is_peer()
    }
}

fn main() {
    // `cargo bench` adds flags of its own; only our words count.
    let has = |wanted| std::env::args().any(|word| word == wanted);
    let kind = match (has("statistics"), has("flat"), has("short")) {
        (true, ..) => Kind::Statistics,
        (_, true, _) => Kind::Flat,
        (.., true) => Kind::Short,
        _ => Kind::Full,
    };
    if let Err(reason) = machine::can_run_pods() {
        println!("nothing can be measured: this machine {reason}");
        std::process::exit(1);
    }
    if kind == Kind::Flat {
        flat::stand_apart();
    }
    let reactor = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let size = if has("short") { SHORT } else { FULL };
    let report = match kind {
        Kind::Statistics => reactor.block_on(measure_statistics(size)),
        Kind::Flat => reactor.block_on(measure_flat(size)),
        Kind::Full | Kind::Short => reactor.block_on(measure(size)),
    };
    println!("{report}");
    let broken = match kind {
        Kind::Flat => promises::broken_by_many(&report, has("short")),
        _ => promises::broken(&report, kind),
    };
    for promise in &broken {
        println!("BROKEN: {promise}");
    }
    std::process::exit(i32::from(!broken.is_empty()));
}

async fn measure(size: Size) -> Report {
    let registry = Registry::start();
    let built = ImageBuilder::busybox().build();
    let image = registry.push(&built, "busybox:1").await;
    let mut report = Report::default();
    let ours = match subject(report::ORLOP, Node::orlop(), "runc", &image).await {
        Ok(ours) => ours,
        Err(reason) => {
            println!("nothing can be measured: {reason}");
            return report;
        }
    };
    let mut subjects = vec![ours];
    match machine::has_program("containerd") {
        Ok(()) => {
            let theirs = subject(report::CONTAINERD, Node::containerd(), "runc", &image).await;
            subjects.push(theirs.expect("has a runtime"));
        }
        Err(reason) => println!("containerd is not compared with: {reason}"),
    }
    // The runtime that orlop prefers, where it works.
    let crun = match machine::has_program("crun") {
        Ok(()) => subject(report::ON_CRUN, Node::orlop(), "crun", &image).await,
        Err(reason) => Err(reason),
    };
    match crun {
        Ok(crun) => subjects.push(crun),
        Err(reason) => println!("crun is not measured: {reason}"),
    }

    rounds::run(&subjects, size, &mut report).await;
    for subject in subjects {
        if subject.name == report::ON_CRUN {
            subject.node.finish().await;
            continue;
        }
        crowd::run(subject, size, &mut report).await;
    }
    report
}

async fn measure_statistics(size: Size) -> Report {
    let registry = Registry::start();
    let built = ImageBuilder::busybox().build();
    let image = registry.push(&built, "busybox:1").await;
    let mut report = Report::default();
    match subject(report::ORLOP, Node::orlop(), "runc", &image).await {
        Ok(ours) => statistics::run(ours, size, &mut report).await,
        Err(reason) => println!("nothing is measured: {reason}"),
    }
    report
}

async fn measure_flat(size: Size) -> Report {
    let registry = Registry::start();
    let built = ImageBuilder::busybox().build();
    let image = registry.push(&built, "busybox:1").await;
    let mut report = Report::default();
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
    let answer = cri.runtime.clone().status(StatusRequest::default()).await;
    let conditions = answer
        .expect("status")
        .into_inner()
        .status
        .expect("a status")
        .conditions;
    if let Some(condition) = conditions
        .iter()
        .find(|condition| condition.reason == "NotBuilt")
    {
        return Err(condition.message.clone());
    }
    cri.pull(image).await.expect("pull the image");
    Ok(Subject {
        name,
        image: image.to_owned(),
        cri,
        node,
        runtime: machine::program(runtime)?,
    })
}
