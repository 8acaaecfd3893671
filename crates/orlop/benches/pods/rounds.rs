//! One pod after the other, the subjects taking turns so that both meet the same noise.

use std::time::{Duration, Instant};

use orlop_testkit::ContainerSpec;
use tonic::Status;

use crate::report::Report;
use crate::{Size, Subject};

pub(crate) async fn run(subjects: &[Subject], size: Size, report: &mut Report) {
    // The first round warms caches and is thrown away.
    for round in 0..=size.rounds {
        for subject in subjects {
            let times = cycle(subject, round).await.expect("a pod's whole life");
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

async fn cycle(subject: &Subject, round: usize) -> Result<Vec<(&'static str, Duration)>, Status> {
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
    lap("ExecSync");
    cri.stop(&id, 0).await?;
    lap("StopContainer");
    cri.remove(&id).await?;
    lap("RemoveContainer");
    cri.stop_pod(&pod_id).await?;
    lap("StopPodSandbox");
    cri.remove_pod(&pod_id).await?;
    lap("RemovePodSandbox");
    times.push((crate::report::POD_UP, up));
    Ok(times)
}
