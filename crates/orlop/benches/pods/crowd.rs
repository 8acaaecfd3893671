//! Many pods at once: starting them, what they cost while they idle, and a restart among them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use orlop_testkit::{ContainerSpec, PodSpec};

use crate::report::Report;
use crate::statistics::{self, HOST};
use crate::{Size, Subject, memory, polling, processes, rows};

/// How many pods are on their way at once.
const IN_FLIGHT: usize = 16;

/// Gives the subject back, without a pod and with a daemon that has started again.
pub(crate) async fn run(mut subject: Subject, size: Size, report: &mut Report) -> Subject {
    let name = subject.name;
    let empty = memory::of_runtime(&subject.node);
    report.number("memory of an idle daemon", "kB", name, empty);

    let pods = (0..size.crowd).map(|n| subject.node.pod(&format!("crowd-{n}")));
    let up = bring_up(&subject, pods.collect()).await;
    let failed = size.crowd - up.pods.len();
    report.number(rows::CROWD_FAILED, "pods", name, failed as f64);
    report.number("pods side by side", "pods/s", name, up.per_second());

    // Nothing is at work for any of them any more.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let full = memory::of_runtime(&subject.node);
    let per_pod = (full - empty) / size.crowd as f64;
    report.number(rows::MEMORY, "kB", name, per_pod);

    let running = up.pods.len();
    statistics::look(&subject, running, &HOST, report).await;
    polling::run(&subject, size.polling, report).await;
    fill(&subject, size, running, report).await;
    prompt(&subject, report);

    let window = Duration::from_secs(size.idle);
    tokio::time::sleep(Duration::from_millis(500)).await;
    let before = processes::cpu(&subject.node);
    tokio::time::sleep(window).await;
    let spent = processes::cpu(&subject.node).saturating_sub(before);
    let percent = 100.0 * spent.as_secs_f64() / window.as_secs_f64();
    report.number(rows::IDLE, "%", name, percent);

    subject.node.stop();
    let start = Instant::now();
    subject.node.start_again().await;
    report.time(rows::RESTART, name, start.elapsed());
    subject.cri = subject.node.cri().await;
    let done = subject.cri.remove_all_pods().await;
    done.expect("remove all pods");
    networked(&subject, size, report).await;
    subject
}

/// Pods that were brought up side by side.
pub(crate) struct Up {
    pub(crate) pods: Vec<String>,
    took: Duration,
}

impl Up {
    fn per_second(&self) -> f64 {
        self.pods.len() as f64 / self.took.as_secs_f64()
    }
}

/// Brings pods up, each with a container.
pub(crate) async fn bring_up(subject: &Subject, pods: Vec<PodSpec>) -> Up {
    let start = Instant::now();
    let cri = Arc::new(subject.cri.clone());
    let outcomes: Vec<_> = stream::iter(pods)
        .map(|pod| {
            let cri = cri.clone();
            let spec = subject.container();
            tokio::spawn(async move {
                let pod_id = cri.run_pod(&pod).await?;
                cri.run(&pod_id, &pod, &spec).await?;
                Ok::<_, tonic::Status>(pod_id)
            })
        })
        .buffer_unordered(IN_FLIGHT)
        .collect()
        .await;
    let took = start.elapsed();
    if let Some(Ok(Err(error))) = outcomes.iter().find(|o| matches!(o, Ok(Err(_)))) {
        println!("{}: a pod of the crowd failed: {error}", subject.name);
    }
    let pods = outcomes
        .into_iter()
        .filter_map(|outcome| outcome.ok()?.ok());
    Up {
        pods: pods.collect(),
        took,
    }
}

/// Many pods with networks of their own: all come up, and no two have the same address.
async fn networked(subject: &Subject, size: Size, report: &mut Report) {
    let name = subject.name;
    let pod = |n| subject.node.pod(&format!("networked-{n}")).own_network();
    let up = bring_up(subject, (0..size.networked).map(pod).collect()).await;
    let failed = size.networked - up.pods.len();
    report.number(rows::NETWORKED_FAILED, "pods", name, failed as f64);
    report.number("pods side by side, bridge", "pods/s", name, up.per_second());
    let mut addresses = BTreeSet::new();
    for pod in &up.pods {
        let status = subject.cri.pod_status(pod).await.expect("status");
        addresses.insert(status.network.expect("a network").ip);
    }
    let twice = up.pods.len() - addresses.len();
    report.number(rows::ADDRESSES_TWICE, "pods", name, twice as f64);
    for pod in &up.pods {
        subject.cri.stop_pod(pod).await.expect("stop");
        subject.cri.remove_pod(pod).await.expect("remove");
    }
}

/// Lists containers, of which each pod gets some more that are never started.
async fn fill(subject: &Subject, size: Size, running: usize, report: &mut Report) {
    const MORE: usize = 4;
    let pods = subject.cri.pods().await.expect("list the pods");
    for pod_id in &pods {
        for n in 0..MORE {
            let pod = subject.node.pod(&format!("filled-{pod_id}"));
            let spec = ContainerSpec::new(&format!("more-{n}"), &subject.image);
            let created = subject.cri.create(pod_id, &pod, &spec).await;
            created.expect("create a container");
        }
    }
    let all = running + pods.len() * MORE;
    for _ in 0..20 {
        let start = Instant::now();
        let listed = subject.cri.containers().await.expect("list");
        report.time(rows::LIST, subject.name, start.elapsed());
        assert_eq!(listed.len(), all, "of {}", size.crowd);
    }
}

/// The same list at a prompt, the client's start included.
fn prompt(subject: &Subject, report: &mut Report) {
    if subject.node.is_peer() {
        return;
    }
    for _ in 0..20 {
        let start = Instant::now();
        let output = std::process::Command::new(orlop_testkit::node::binary())
            .args(["--config", "/dev/null", "--runtime-endpoint"])
            .arg(format!("unix://{}", subject.node.socket().display()))
            .args(["ps", "-a"])
            .output()
            .expect("run the client");
        report.time(rows::PROMPT, subject.name, start.elapsed());
        assert!(output.status.success(), "{output:?}");
    }
    let size = std::fs::metadata(orlop_testkit::node::binary())
        .expect("it is there")
        .len();
    report.number(rows::BINARY, "MB", subject.name, size as f64 / 1e6);
}
