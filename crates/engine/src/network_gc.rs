//! Releasing network attachments that belong to no pod, now and then.

use std::time::Duration;

use orlop_network::{ContainerId, GcReport};
use tokio::time::{MissedTickBehavior, interval_at};

use crate::engine::Engine;
use crate::error::{Error, Result, chain};

/// Collects every so often for as long as the daemon lives. At its start everything is collected
/// anyway.
pub fn start(engine: &Engine, every: Duration) {
    let engine_too = engine.clone();
    engine.tasks.spawn(async move {
        let mut ticks = interval_at(tokio::time::Instant::now() + every, every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            match collect(&engine_too).await {
                Ok(report) => tell(&report),
                // Somebody else collects.
                Err(error) => {
                    tracing::debug!(error = chain(&*error), "collecting network garbage");
                }
            }
        }
    });
}

/// Releases what belongs to no pod, and has plugins that know the GC verb do the same.
pub async fn collect(engine: &Engine) -> Result<GcReport> {
    let report = engine.networks.gc(has_pod(engine)).await;
    report.map_err(|source| {
        let doing = "releasing network attachments of pods that are gone".into();
        Error::Network { doing, source }.into()
    })
}

/// Whether an attachment has a pod. One whose record is there and could not be read counts:
/// nobody can tell that it is gone.
pub fn has_pod(engine: &Engine) -> impl Fn(&ContainerId) -> bool + Send + use<> {
    let engine = engine.clone();
    move |id| engine.pods.contains(id.as_str()) || engine.pods_dir().join(id.as_str()).exists()
}

fn tell(report: &GcReport) {
    if !report.released.is_empty() {
        let pods = report.released.len();
        tracing::info!(pods, "released network attachments of pods that are gone");
    }
    for network in &report.put_off {
        // There will be quieter times.
        tracing::debug!(network, "pods come and go: its plugins collect later");
    }
    for (id, problem) in &report.failed {
        tracing::warn!(
            id,
            problem,
            "a network attachment without a pod could not be released"
        );
    }
}
