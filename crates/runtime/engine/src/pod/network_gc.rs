//! Periodic garbage collection of network attachments that belong to no pod.

use std::sync::Arc;

use orlop_network::{ContainerId, GcReport};
use tokio::time::{Instant, timeout_at};

use crate::error::{Error, Result, chain};
use crate::node::Node;

/// Collects garbage at the configured interval for as long as the daemon runs. Starts with a pause,
/// because the daemon collects everything at startup.
pub fn start(node: &Arc<Node>) {
    let node_too = Arc::clone(node);
    node.tasks.spawn(async move {
        loop {
            pause(&node_too).await;
            match collect(&node_too).await {
                Ok(report) => tell(&report),
                // Another collection is running.
                Err(error) => {
                    tracing::debug!(
                        error = chain(&*error),
                        "cannot collect unused network attachments"
                    );
                }
            }
        }
    });
}

/// Waits for the configured interval, which may change meanwhile.
async fn pause(node: &Node) {
    let begun = Instant::now();
    loop {
        let mut changed = node.settings.changes();
        match node.config().network_gc_interval {
            // A changed interval counts from the start of this pause.
            Some(every) => {
                if timeout_at(begun + every, changed.changed()).await.is_err() {
                    return;
                }
            }
            None => drop(changed.changed().await),
        }
    }
}

/// Releases attachments without a pod, and calls the GC verb of CNI plugins that support it.
pub async fn collect(node: &Arc<Node>) -> Result<GcReport> {
    let report = node.networks.gc(has_pod(node)).await;
    report.map_err(|source| {
        let doing = "releasing network attachments of removed pods".into();
        Error::Network { doing, source }.into()
    })
}

/// Whether an attachment has a pod. A pod with an unreadable record counts, as it may still exist.
pub fn has_pod(node: &Arc<Node>) -> impl Fn(&ContainerId) -> bool + Send + use<> {
    let node = Arc::clone(node);
    move |id| node.pods.contains(id.as_str()) || node.paths.pods().join(id.as_str()).exists()
}

fn tell(report: &GcReport) {
    if !report.released.is_empty() {
        let pods = report.released.len();
        tracing::info!(pods, "released network attachments of removed pods");
    }
    for network in &report.put_off {
        // Collect at a quieter time.
        tracing::debug!(
            network,
            "pods are being attached or detached; collecting the network's unused attachments \
             later"
        );
    }
    for (id, problem) in &report.failed {
        tracing::warn!(
            id,
            problem,
            "cannot release a network attachment that belongs to no pod"
        );
    }
}
