//! What commands cost that a kubelet runs in containers all the time, as its exec probes.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::crowd;
use crate::report::Report;
use crate::{Size, Subject, processes, rows};

/// Containers that have probes, each in a pod of its own.
const CONTAINERS: usize = 20;

/// A hundred a second, at an even pace.
const PACE: Duration = Duration::from_millis(10);

pub(crate) async fn run(subject: &Subject, size: Size, report: &mut Report) {
    let pod = |n| subject.node.pod(&format!("probed-{n}")).own_network();
    let up = crowd::bring_up(subject, (0..CONTAINERS).map(pod).collect()).await;
    assert_eq!(up.pods.len(), CONTAINERS, "all of them are up");
    let containers = subject.cri.containers().await.expect("list");
    assert_eq!(containers.len(), CONTAINERS);
    // The kernel counts in steps of 10 ms, downwards: what all of them have used by then differs.
    probe(subject, &containers, size.probing.div_ceil(5)).await;
    let before = processes::cpu_with_children(&subject.node);
    let begin = Instant::now();
    let times = probe(subject, &containers, size.probing).await;
    let took = begin.elapsed();
    let spent = processes::cpu_with_children(&subject.node).saturating_sub(before);
    let percent = 100.0 * spent.as_secs_f64() / took.as_secs_f64();
    report.number(rows::PROBES, "%", subject.name, percent);
    for time in times {
        report.time("ExecSync as a probe", subject.name, time);
    }
    subject.cri.remove_all_pods().await.expect("remove");
}

/// Probes for so many seconds, and tells how long each took. The pace does not wait for answers.
async fn probe(subject: &Subject, containers: &[String], seconds: u32) -> Vec<Duration> {
    let mut ticks = tokio::time::interval(PACE);
    let mut probes = JoinSet::new();
    let count = (Duration::from_secs(seconds.into()).as_millis() / PACE.as_millis()) as usize;
    for id in containers.iter().cycle().take(count) {
        ticks.tick().await;
        let (cri, id) = (subject.cri.clone(), id.clone());
        probes.spawn(async move {
            let start = Instant::now();
            let answer = cri.exec(&id, &["true"]).await.expect("a probe");
            assert_eq!(answer.exit_code, 0, "{answer:?}");
            start.elapsed()
        });
    }
    // The last one has its time, too.
    ticks.tick().await;
    probes.join_all().await
}
