//! What a pod costs, over CRI, side by side with Debian's containerd in the same run.
//!
//! `cargo bench -p orlop --bench pods` measures and fails where a promise of
//! SPECIFICATION.md is broken; with `-- short` it only shows that everything still runs.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::large_futures,
    reason = "a benchmark fails by panicking"
)]

mod crowd;
mod memory;
mod report;
mod rounds;

use orlop_cri::v1::StatusRequest;
use orlop_testkit::{Cri, ImageBuilder, Node, Registry, machine};

use crate::report::Report;

/// How much is measured.
#[derive(Debug, Clone, Copy)]
struct Size {
    /// Pods one after the other.
    rounds: usize,
    /// Pods side by side.
    crowd: usize,
    /// Seconds of watching an idle node.
    idle: u64,
}

/// A node with a pulled image.
struct Subject {
    name: &'static str,
    image: String,
    cri: Cri,
    node: Node,
}

fn main() {
    // `cargo bench` adds flags of its own; only our word counts.
    let short = std::env::args().any(|word| word == "short");
    if let Err(reason) = machine::can_run_pods() {
        println!("nothing is measured: this machine {reason}");
        return;
    }
    let size = if short {
        Size {
            rounds: 3,
            crowd: 4,
            idle: 1,
        }
    } else {
        Size {
            rounds: 40,
            crowd: 100,
            idle: 5,
        }
    };
    let reactor = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let report = reactor.block_on(measure(size));
    println!("{report}");
    if short {
        return;
    }
    let broken = report.broken_promises();
    for promise in &broken {
        println!("BROKEN: {promise}");
    }
    std::process::exit(i32::from(!broken.is_empty()));
}

async fn measure(size: Size) -> Report {
    let registry = Registry::start();
    let built = ImageBuilder::busybox().build();
    let image = registry.push(&built, "busybox:1").await;
    let mut subjects = Vec::new();
    let ours = subject("orlop", Node::orlop().start().await, &image).await;
    match ours {
        Ok(ours) => subjects.push(ours),
        Err(reason) => {
            println!("nothing is measured: {reason}");
            return Report::default();
        }
    }
    match machine::has_program("containerd") {
        Ok(()) => {
            let node = Node::containerd().start().await;
            subjects.push(
                subject("containerd", node, &image)
                    .await
                    .expect("has a runtime"),
            );
        }
        Err(reason) => println!("containerd is not compared with: {reason}"),
    }

    let mut report = Report::default();
    rounds::run(&subjects, size, &mut report).await;
    for subject in subjects {
        crowd::run(subject, size, &mut report).await;
    }
    report
}

async fn subject(name: &'static str, node: Node, image: &str) -> Result<Subject, String> {
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
    })
}
