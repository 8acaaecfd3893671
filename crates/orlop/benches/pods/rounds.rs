//! One pod after the other, the subjects taking turns so that all meet the same noise.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use orlop_testkit::PodSpec;
use tonic::Status;

use crate::life::{self, Life, PACE};
use crate::report::Report;
use crate::{Size, Subject, rows, traced};

pub(crate) async fn run(subjects: &[Subject], size: Size, report: &mut Report) {
    // The first round warms caches and is thrown away.
    for round in 0..=size.rounds {
        for subject in subjects {
            let pod = subject.node.pod(&format!("round-{round}")).own_network();
            let life = cycle(subject, &pod).await.expect("a pod's whole life");
            tokio::time::sleep(PACE).await;
            let pod = subject.node.pod(&format!("host-{round}"));
            let of_host = on_host(subject, &pod).await.expect("a pod's whole life");
            tokio::time::sleep(PACE).await;
            if round > 0 {
                life.tell(subject.name, report, |step| step);
                of_host.tell(subject.name, report, |step| step);
            }
        }
    }
}

/// A pod with a network of its own, from the same conflist on all sides.
async fn cycle(subject: &Subject, pod: &PodSpec) -> Result<Life, Status> {
    let cri = &subject.cri;
    let spec = subject.container();
    let mut life = Life::new();
    let pod_id = cri.run_pod(pod).await?;
    life.lap(rows::RUN);
    let id = cri.create(&pod_id, pod, &spec).await?;
    life.lap(rows::CREATE);
    cri.start(&id).await?;
    life.lap(rows::START);
    let answer = cri.exec(&id, &["true"]).await?;
    life.lap(rows::EXEC);
    assert_eq!(answer.exit_code, 0);
    if !subject.node.is_peer() {
        let took = traced::step(cri, &pod_id, "network").await?;
        life.add(rows::NETWORK, took);
        // On the way, what a command costs without us.
        let root = subject.node.state().join("runtimes/test");
        life.add(rows::OWN_EXEC, own_exec(&subject.runtime, &root, &id));
    }
    life.go_on();
    cri.stop(&id, 0).await?;
    life.lap(rows::STOP);
    cri.remove(&id).await?;
    life.lap(rows::REMOVE);
    cri.stop_pod(&pod_id).await?;
    life.lap(rows::STOP_POD);
    cri.remove_pod(&pod_id).await?;
    life.lap(rows::REMOVE_POD);
    life.add_sum(rows::POD_UP, &UP);
    life.add_sum(rows::REMOVED, &[rows::STOP, rows::REMOVE]);
    life.add_sum(rows::POD_DOWN, &DOWN);
    Ok(life)
}

const UP: [&str; 3] = [rows::RUN, rows::CREATE, rows::START];
const DOWN: [&str; 4] = [rows::STOP, rows::REMOVE, rows::STOP_POD, rows::REMOVE_POD];

/// A pod on the host's network, up and down.
async fn on_host(subject: &Subject, pod: &PodSpec) -> Result<Life, Status> {
    let cri = &subject.cri;
    let mut life = Life::new();
    let up = life::bring_up(cri, pod, &subject.container()).await?;
    life.lap(rows::HOST_UP);
    life::take_down(cri, up).await?;
    life.lap(rows::HOST_DOWN);
    Ok(life)
}

/// The runtime's own `exec`, by hand.
fn own_exec(runtime: &PathBuf, root: &Path, id: &str) -> Duration {
    let start = Instant::now();
    let status = Command::new(runtime)
        .arg("--root")
        .arg(root)
        .args(["exec", id, "true"])
        .stdin(Stdio::null())
        .status()
        .expect("run the runtime");
    let took = start.elapsed();
    assert!(status.success(), "{status}");
    took
}
