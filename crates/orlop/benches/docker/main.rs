//! What a pod costs on a Docker Engine: over CRI, and by the engine's own API alone.
//!
//! `cargo bench -p orlop --bench docker` measures, and fails where a promise of SPECIFICATION.md
//! is broken. Another CRI server for the engine takes part where `ORLOP_TEST_CRI_DOCKERD` names its program, which is started with
//! cri-dockerd's flags. `ORLOP_TEST_DOCKERD` names another engine than the one on the path.
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

mod plain;
mod report;
mod subject;

use std::time::Duration;

use orlop_testkit::{DockerEngine, ImageBuilder, docker};

use crate::report::Report;
use crate::subject::Subject;

/// The name of the image that is run.
const BUSYBOX: &str = "testkit.invalid/busybox:1";
/// The image of the sandboxes' process, which the daemon loads when it makes its first one.
const PAUSE: &str = "orlop.invalid/pause:1";
/// Lives of a pod.
const ROUNDS: usize = 40;

fn main() {
    if let Err(reason) = docker::can_run() {
        println!("nothing can be measured: this machine {reason}");
        std::process::exit(1);
    }
    let reactor = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let report = reactor.block_on(measure());
    println!("{report}");
    let broken = report.broken_promises();
    for promise in &broken {
        println!("BROKEN: {promise}");
    }
    std::process::exit(i32::from(!broken.is_empty()));
}

async fn measure() -> Report {
    let engine = DockerEngine::settings().bridge().start();
    engine.load(&ImageBuilder::busybox().build(), BUSYBOX);
    let ours = Subject::orlop(&engine).await;
    let mut subjects = vec![ours, Subject::plain(&engine)];
    match docker::CriDockerd::program() {
        Ok(program) => subjects.push(Subject::cri_dockerd(&engine, &program).await),
        Err(reason) => println!("cri-dockerd is not compared with: this machine {reason}"),
    }
    let mut report = Report::default();
    // The first round warms caches and is thrown away. Taking turns, all meet the same noise.
    for round in 0..=ROUNDS {
        for subject in &subjects {
            let times = subject.cycle(round).await;
            if round > 0 {
                for (step, time) in times {
                    report.time(step, subject.name(), time);
                }
            }
            // Steps of one must not slow down the other: let the kernel finish tearing down.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    for subject in subjects {
        if let Some(kib) = subject.resident() {
            report.number(report::MEMORY, "MiB", subject.name(), kib as f64 / 1024.0);
        }
        subject.finish().await;
    }
    report
}
