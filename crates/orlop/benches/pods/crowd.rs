//! Many pods at once: starting them, what they cost while they idle, and a restart among them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use orlop_testkit::ContainerSpec;

use crate::memory;
use crate::report::{self, Report};
use crate::{Size, Subject};

/// How many pods are on their way at once.
const IN_FLIGHT: usize = 16;

/// What the containers run: told from the runtime's own processes by this.
pub(crate) const WORKLOAD: &str = "sleep 86399";

pub(crate) async fn run(mut subject: Subject, size: Size, report: &mut Report) {
    let name = subject.name;
    let empty = memory::of_runtime(&subject.node);
    report.number(
        "memory of an idle daemon",
        "kB",
        name,
        empty.proportional_kb as f64,
    );

    let start = Instant::now();
    let pods: Vec<_> = (0..size.crowd)
        .map(|n| subject.node.pod(&format!("crowd-{n}")))
        .collect();
    let cri = Arc::new(subject.cri.clone());
    let outcomes: Vec<_> = stream::iter(pods)
        .map(|pod| {
            let cri = cri.clone();
            let words: Vec<&str> = WORKLOAD.split(' ').collect();
            let spec = ContainerSpec::new("main", &subject.image).command(&words);
            tokio::spawn(async move {
                let pod_id = cri.run_pod(&pod).await?;
                cri.run(&pod_id, &pod, &spec).await
            })
        })
        .buffer_unordered(IN_FLIGHT)
        .collect()
        .await;
    let took = start.elapsed();
    let failed = outcomes
        .iter()
        .filter(|outcome| !matches!(outcome, Ok(Ok(_))))
        .count();
    if let Some(Ok(Err(error))) = outcomes.iter().find(|o| matches!(o, Ok(Err(_)))) {
        println!("{name}: a pod of the crowd failed: {error}");
    }
    report.number(report::CROWD_FAILED, "pods", name, failed as f64);
    report.number(
        "pods side by side",
        "pods/s",
        name,
        size.crowd as f64 / took.as_secs_f64(),
    );

    for _ in 0..20 {
        let start = Instant::now();
        let listed = subject.cri.containers().await.expect("list");
        report.time(report::LIST, name, start.elapsed());
        assert_eq!(listed.len(), size.crowd - failed);
    }

    let full = memory::of_runtime(&subject.node);
    let per_pod = (full.proportional_kb as f64 - empty.proportional_kb as f64) / size.crowd as f64;
    report.number(report::MEMORY, "kB", name, per_pod);

    let window = Duration::from_secs(size.idle);
    tokio::time::sleep(Duration::from_millis(500)).await;
    let before = memory::of_runtime(&subject.node).cpu;
    tokio::time::sleep(window).await;
    let spent = memory::of_runtime(&subject.node).cpu.saturating_sub(before);
    let percent = 100.0 * spent.as_secs_f64() / window.as_secs_f64();
    report.number(report::IDLE, "%", name, percent);

    subject.node.stop();
    let start = Instant::now();
    subject.node.start_again().await;
    report.time(report::RESTART, name, start.elapsed());
    subject.node.finish().await;
}
