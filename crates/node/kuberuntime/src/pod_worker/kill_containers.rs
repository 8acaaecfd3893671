//! Stops containers and sandboxes: the kubelet's `killContainersWithSyncResult` and
//! `killContainer`.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use orlop_cri_api::client::ClientError;
use orlop_kubelet_rules::pod::{Container, LifecycleHandler};
use orlop_kubelet_rules::termination::{MINIMUM_GRACE, Turn, remaining_grace};
use tokio::sync::watch;

use crate::context::Context;
use crate::event::Severity;
use crate::hooks::{HookSite, run_hook};

/// A container to stop.
#[derive(Debug, Clone)]
pub(crate) struct Victim {
    pub(crate) id: String,
    pub(crate) name: String,
    /// Time from the preStop hook to the kill.
    pub(crate) grace: Duration,
    pub(crate) pre_stop: Option<LifecycleHandler>,
    /// Its definition, to resolve named ports; empty if the manifest is gone.
    pub(crate) container: Container,
    /// The message of the `Killing` event.
    pub(crate) message: String,
}

/// Emits an event of a container of the pod.
pub(crate) type Teller<'a> =
    &'a (dyn Fn(Option<&str>, Severity, &'static str, String) + Send + Sync);

/// Stops containers concurrently, except those that wait for others; returns the first error after
/// all are done.
pub(crate) async fn kill_all(
    ctx: &Context,
    victims: Vec<Victim>,
    order: &[Turn],
    pod_ip: Option<IpAddr>,
    tell: Teller<'_>,
) -> Result<(), ClientError> {
    let ends: Vec<(String, watch::Sender<bool>)> = victims
        .iter()
        .map(|victim| (victim.name.clone(), watch::Sender::new(false)))
        .collect();
    let stops = victims.into_iter().enumerate().map(|(i, victim)| {
        let waits_for: Vec<_> = order
            .iter()
            .filter(|turn| turn.name == victim.name)
            .flat_map(|turn| &turn.waits_for)
            .filter_map(|other| ends.iter().find(|(name, _)| name == other))
            .map(|(_, end)| end.subscribe())
            .collect();
        let end = ends[i].1.clone();
        async move {
            let done = kill(ctx, victim, waits_for, pod_ip, tell).await;
            end.send_replace(true);
            done
        }
    });
    join_all(stops).await.into_iter().collect()
}

async fn kill(
    ctx: &Context,
    victim: Victim,
    waits_for: Vec<watch::Receiver<bool>>,
    pod_ip: Option<IpAddr>,
    tell: Teller<'_>,
) -> Result<(), ClientError> {
    let begun = Instant::now();
    for mut other in waits_for {
        let left = victim.grace.saturating_sub(begun.elapsed());
        let _ = tokio::time::timeout(left, other.wait_for(|ended| *ended)).await;
    }
    let waited = begun.elapsed();
    tell(
        Some(&victim.name),
        Severity::Normal,
        "Killing",
        victim.message.clone(),
    );
    let begun = Instant::now();
    if let Some(hook) = &victim.pre_stop
        && !victim.grace.is_zero()
    {
        let site = HookSite {
            container_id: &victim.id,
            container: &victim.container,
            pod_ip,
            tell: &|severity, reason, message| {
                tell(Some(&victim.name), severity, reason, message);
            },
        };
        let limit = victim.grace.saturating_sub(waited).max(MINIMUM_GRACE);
        let run = run_hook(ctx, hook, &site, limit);
        let done = tokio::time::timeout(limit, run).await;
        if !matches!(done, Ok(Ok(()))) {
            // The hook's error may contain secrets: it goes only to the node's log.
            let why = match done {
                Ok(Err(why)) => why,
                _ => "the hook took longer than the grace period".to_owned(),
            };
            tracing::warn!(container = victim.name, why, "a preStop hook failed");
            tell(
                Some(&victim.name),
                Severity::Warning,
                "FailedPreStopHook",
                "PreStopHook failed".to_owned(),
            );
        }
    }
    let left = remaining_grace(victim.grace, begun.elapsed(), waited);
    match ctx.runtime.stop_container(&victim.id, left).await {
        Err(error) if !error.is_not_found() => {
            let message = format!("error killing container {:?}: {error}", victim.name);
            tell(
                Some(&victim.name),
                Severity::Warning,
                "FailedKillPod",
                message,
            );
            Err(error)
        }
        _ => Ok(()),
    }
}

/// Stops all sandboxes of a pod.
pub(crate) async fn stop_sandboxes<'a>(
    ctx: &Context,
    ids: impl IntoIterator<Item = &'a str>,
) -> Result<(), ClientError> {
    for id in ids {
        match ctx.runtime.stop_pod_sandbox(id).await {
            Err(error) if !error.is_not_found() => return Err(error),
            _ => {}
        }
    }
    Ok(())
}
