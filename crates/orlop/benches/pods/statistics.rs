//! What it costs to be asked what all pods use.

use std::time::{Duration, Instant};

use orlop_cri_api::v1::{ListPodSandboxMetricsRequest, ListPodSandboxStatsRequest};

use crate::crowd::bring_up;
use crate::report::Report;
use crate::{Size, Subject, cpu, rows};

/// Calls whose processor time is taken together: the kernel tells it in steps of 10 ms.
const CALLS: u32 = 100;

const METRICS: &str = "/runtime.v1.RuntimeService/ListPodSandboxMetrics";

/// Times whose middle is taken.
const ROUNDS: u32 = 40;

/// The rows of results.
pub(crate) struct Rows {
    stats: &'static str,
    stats_cpu: &'static str,
    metrics: &'static str,
    read: &'static str,
    metrics_cpu: &'static str,
}

/// Of pods on the host's network.
pub(crate) const HOST: Rows = Rows {
    stats: rows::STATS,
    stats_cpu: rows::STATS_CPU,
    metrics: rows::METRICS,
    read: "read by the client, too",
    metrics_cpu: "CPU of ListPodSandboxMetrics",
};

/// Of pods with networks of their own.
const BRIDGE: Rows = Rows {
    stats: "ListPodSandboxStats, bridge",
    stats_cpu: "CPU of it, bridge",
    metrics: "ListPodSandboxMetrics, br.",
    read: "read by the client, br.",
    metrics_cpu: "CPU of it, br.",
};

/// Nothing but that, for pods on either network.
pub(crate) async fn run(subject: Subject, size: Size, report: &mut Report) {
    for rows in [&HOST, &BRIDGE] {
        let pod = |n| {
            let pod = subject.node.pod(&format!("looked-at-{n}"));
            if rows.stats == BRIDGE.stats {
                pod.own_network()
            } else {
                pod
            }
        };
        let up = bring_up(&subject, (0..size.crowd).map(pod).collect()).await;
        look(&subject, up.pods.len(), rows, report).await;
        subject.cri.remove_all_pods().await.expect("remove");
    }
    subject.node.finish().await;
}

/// What the kubelet asks for again and again. The first answers open files that stay open.
pub(crate) async fn look(subject: &Subject, running: usize, rows: &Rows, report: &mut Report) {
    let name = subject.name;
    let mut client = subject.cri.runtime.clone();
    for round in 0..=ROUNDS {
        let start = Instant::now();
        let request = ListPodSandboxStatsRequest::default();
        let stats = client.list_pod_sandbox_stats(request).await.expect("stats");
        let took = start.elapsed();
        assert_eq!(stats.into_inner().stats.len(), running);
        if round > 0 {
            report.time(rows.stats, name, took);
        }
    }
    let before = cpu::of_process(subject.node.pid()).expect("it runs");
    for _ in 0..CALLS {
        let request = ListPodSandboxStatsRequest::default();
        client.list_pod_sandbox_stats(request).await.expect("stats");
    }
    report.time(rows.stats_cpu, name, spent(subject, before) / CALLS);
    for round in 0..=ROUNDS {
        let start = Instant::now();
        let request = ListPodSandboxMetricsRequest::default();
        // containerd 1.6 has none.
        let Ok(metrics) = client.list_pod_sandbox_metrics(request).await else {
            return;
        };
        let took = start.elapsed();
        assert_eq!(metrics.into_inner().pod_metrics.len(), running);
        if round > 0 {
            report.time(rows.read, name, took);
        }
    }
    for _ in 0..ROUNDS {
        let start = Instant::now();
        // Unread: to make thousands of samples of the answer is the client's affair.
        let request = ListPodSandboxMetricsRequest::default();
        let answer: Result<(), _> = subject.cri.call(METRICS, request).await;
        answer.expect("metrics");
        report.time(rows.metrics, name, start.elapsed());
    }
    let before = cpu::of_process(subject.node.pid()).expect("it runs");
    for _ in 0..CALLS {
        let request = ListPodSandboxMetricsRequest::default();
        let metrics: Result<(), _> = subject.cri.call(METRICS, request).await;
        metrics.expect("metrics");
    }
    report.time(rows.metrics_cpu, name, spent(subject, before) / CALLS);
}

fn spent(subject: &Subject, before: Duration) -> Duration {
    let after = cpu::of_process(subject.node.pid()).expect("it runs");
    after.saturating_sub(before)
}
