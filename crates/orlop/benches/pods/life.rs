//! A pod's life, call by call.

use std::time::{Duration, Instant};

use orlop_testkit::{ContainerSpec, Cri, PodSpec};
use tonic::Status;

use crate::report::Report;

/// Between pods, so that the steps of one do not slow down the next one: the kernel tears its
/// network down behind the answer.
pub(crate) const PACE: Duration = Duration::from_millis(60);

/// A pod and its container.
pub(crate) struct Up {
    pod: String,
    container: String,
}

pub(crate) async fn bring_up(cri: &Cri, pod: &PodSpec, spec: &ContainerSpec) -> Result<Up, Status> {
    let pod_id = cri.run_pod(pod).await?;
    let container = cri.run(&pod_id, pod, spec).await?;
    Ok(Up {
        pod: pod_id,
        container,
    })
}

pub(crate) async fn take_down(cri: &Cri, up: Up) -> Result<(), Status> {
    cri.stop(&up.container, 0).await?;
    cri.remove(&up.container).await?;
    cri.stop_pod(&up.pod).await?;
    cri.remove_pod(&up.pod).await
}

/// What the calls of a pod's life took.
pub(crate) struct Life {
    laps: Vec<(&'static str, Duration)>,
    last: Instant,
}

impl Life {
    pub(crate) fn new() -> Self {
        Self {
            laps: Vec::new(),
            last: Instant::now(),
        }
    }

    /// What was done since the last lap, or since [`Life::go_on`], is this step.
    pub(crate) fn lap(&mut self, step: &'static str) {
        self.laps.push((step, self.last.elapsed()));
        self.last = Instant::now();
    }

    /// What was done since the last lap does not count.
    pub(crate) fn go_on(&mut self) {
        self.last = Instant::now();
    }

    /// A step that was measured otherwise.
    pub(crate) fn add(&mut self, step: &'static str, took: Duration) {
        self.laps.push((step, took));
    }

    /// Some steps together are one of another name.
    pub(crate) fn add_sum(&mut self, name: &'static str, steps: &[&str]) {
        let laps = self.laps.iter();
        let of_these = laps.filter(|(step, _)| steps.contains(step));
        let took = of_these.map(|(_, took)| *took).sum();
        self.add(name, took);
    }

    /// Tells it, each step in a row that has its name as `row` makes it.
    pub(crate) fn tell(
        &self,
        subject: &'static str,
        report: &mut Report,
        row: impl Fn(&'static str) -> &'static str,
    ) {
        for (step, took) in &self.laps {
            report.time(row(step), subject, *took);
        }
    }
}
