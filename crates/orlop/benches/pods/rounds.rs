//! One pod after the other, the subjects taking turns so that both meet the same noise.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use orlop_testkit::ContainerSpec;
use tonic::Status;

use crate::report::{self, Report};
use crate::{Size, Subject, traced};

pub(crate) async fn run(subjects: &[Subject], size: Size, report: &mut Report) {
    // The first round warms caches and is thrown away.
    for round in 0..=size.rounds {
        for subject in subjects {
            let mut times = cycle(subject, round).await.expect("a pod's whole life");
            times.extend(networked(subject, round).await.expect("a pod's network"));
            if round > 0 {
                for (step, time) in times {
                    report.time(step, subject.name, time);
                }
            }
            // Steps of one must not slow down the other: let the kernel finish tearing down.
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

type Times = Vec<(&'static str, Duration)>;

async fn cycle(subject: &Subject, round: usize) -> Result<Times, Status> {
    let cri = &subject.cri;
    let pod = subject.node.pod(&format!("round-{round}"));
    let spec = ContainerSpec::new("main", &subject.image).command(&["sleep", "600"]);
    let mut times = Vec::new();
    let start = Instant::now();
    let mut last = start;
    let mut lap = |step| {
        times.push((step, last.elapsed()));
        last = Instant::now();
    };
    let pod_id = cri.run_pod(&pod).await?;
    lap("RunPodSandbox");
    let id = cri.create(&pod_id, &pod, &spec).await?;
    lap("CreateContainer");
    cri.start(&id).await?;
    lap("StartContainer");
    let up = start.elapsed();
    cri.exec(&id, &["true"]).await?;
    lap(report::EXEC);
    let stopping = Instant::now();
    cri.stop(&id, 0).await?;
    lap("StopContainer");
    cri.remove(&id).await?;
    lap("RemoveContainer");
    let removed = stopping.elapsed();
    cri.stop_pod(&pod_id).await?;
    lap("StopPodSandbox");
    cri.remove_pod(&pod_id).await?;
    lap("RemovePodSandbox");
    let down = stopping.elapsed();
    times.push((report::POD_UP, up));
    times.push((report::REMOVED, removed));
    times.push((report::POD_DOWN, down));
    Ok(times)
}

/// A pod with a network of its own, from the same conflist on both sides.
async fn networked(subject: &Subject, round: usize) -> Result<Times, Status> {
    let cri = &subject.cri;
    let pod = subject
        .node
        .pod(&format!("networked-{round}"))
        .own_network();
    let mut times = Vec::new();
    let start = Instant::now();
    let pod_id = cri.run_pod(&pod).await?;
    times.push((report::BRIDGE_UP, start.elapsed()));
    if subject.is_ours() {
        let took = traced::step(cri, &pod_id, "network").await?;
        times.push((report::NETWORK, took));
        // On the way, what a command costs without us.
        let spec = ContainerSpec::new("main", &subject.image).command(&["sleep", "600"]);
        if let Some(root) = runtime_root(subject) {
            let id = cri.run(&pod_id, &pod, &spec).await?;
            times.push((report::OWN_EXEC, own_exec(subject, &root, &id)));
            cri.stop(&id, 0).await?;
            cri.remove(&id).await?;
        }
    }
    let start = Instant::now();
    cri.stop_pod(&pod_id).await?;
    times.push((report::BRIDGE_DOWN, start.elapsed()));
    cri.remove_pod(&pod_id).await?;
    Ok(times)
}

/// Where a runtime that can be called from here keeps its state.
fn runtime_root(subject: &Subject) -> Option<std::path::PathBuf> {
    let root = subject.node.state().join("runtimes/test");
    (subject.name == report::ORLOP && root.is_dir()).then_some(root)
}

/// The runtime's own `exec`, by hand.
fn own_exec(subject: &Subject, root: &std::path::Path, id: &str) -> Duration {
    let start = Instant::now();
    let status = Command::new(&subject.runtime)
        .arg("--root")
        .arg(root)
        .args(["exec", id, "true"])
        .stdin(Stdio::null())
        .status()
        .expect("run the runtime");
    assert!(status.success(), "{status}");
    start.elapsed()
}
