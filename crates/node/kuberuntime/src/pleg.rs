//! The kubelet's `PLEG` (pod lifecycle event generator): detects changes of pods from the runtime's
//! events. If the runtime sends none, it lists all pods every second.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use orlop_cri_api::client::{ClientError, Events};
use orlop_cri_api::v1;
use orlop_kubelet_rules::labels;
use tokio::time::Instant;
use tonic::Code;

use crate::clock::now;
use crate::context::Context;

/// Interval of lists without events.
const RELIST: Duration = Duration::from_secs(1);
/// Interval of lists while events arrive.
const RELIST_WITH_EVENTS: Duration = Duration::from_mins(5);
/// Delay before reconnecting a broken event stream.
const RECONNECT: Duration = Duration::from_secs(1);

/// The states of a pod's sandboxes and containers by their id, per pod.
type Known = BTreeMap<String, BTreeMap<String, i32>>;

/// Watches the runtime until the manager shuts down.
pub(crate) async fn run(ctx: Arc<Context>) {
    let mut known = Known::new();
    let mut last = None;
    let mut with_events = ctx.options.events;
    loop {
        if !with_events {
            relist(&ctx, &mut known, &mut last).await;
            tokio::time::sleep(RELIST).await;
            continue;
        }
        match ctx.runtime.container_events().await {
            Ok(events) => {
                ctx.metrics.events_connected(true);
                // Catches up with changes before the stream was open.
                relist(&ctx, &mut known, &mut last).await;
                follow(&ctx, events, &mut known, &mut last).await;
                ctx.metrics.events_connected(false);
            }
            Err(error) if error.code() == Code::Unimplemented => {
                tracing::info!(
                    "the runtime sends no container events; listing its pods every second"
                );
                with_events = false;
                continue;
            }
            Err(error) => {
                ctx.metrics.events_connected(false);
                ctx.runtime_trouble(&error);
            }
        }
        tokio::time::sleep(RECONNECT).await;
        relist(&ctx, &mut known, &mut last).await;
    }
}

/// Passes events on until the stream ends.
async fn follow(
    ctx: &Arc<Context>,
    mut events: Events,
    known: &mut Known,
    last: &mut Option<Instant>,
) {
    let mut next_list = Instant::now() + RELIST_WITH_EVENTS;
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            () = tokio::time::sleep_until(next_list) => {
                relist(ctx, known, last).await;
                next_list = Instant::now() + RELIST_WITH_EVENTS;
                continue;
            }
        };
        match event {
            Ok(Some(event)) => pass_on(ctx, &event),
            // A runtime that has the call but does not support it reports that only here.
            Err(ClientError::Call { status, .. }) if status.code() == Code::Unimplemented => {
                tokio::time::sleep(RELIST).await;
                return;
            }
            Ok(None) | Err(_) => return,
        }
    }
}

fn pass_on(ctx: &Context, event: &v1::ContainerEventResponse) {
    let pod = event
        .pod_sandbox_status
        .as_ref()
        .and_then(|s| s.metadata.as_ref());
    let Some(pod) = pod else {
        ctx.metrics.event_without_pod();
        return;
    };
    ctx.metrics
        .event(now().since(orlop_kubelet_rules::Timestamp(event.created_at)));
    match ctx.mailbox(&pod.uid) {
        Some(mailbox) => mailbox.event(&event.container_id, event.container_event_type()),
        None => ctx.stranger(&pod.uid),
    }
}

/// Lists all pods and wakes the workers of those that have changed.
async fn relist(ctx: &Arc<Context>, known: &mut Known, last: &mut Option<Instant>) {
    let begun = Instant::now();
    let listed = async {
        let sandboxes = ctx.runtime.list_pod_sandbox(None).await?;
        let containers = ctx.runtime.list_containers(None).await?;
        Ok::<_, ClientError>((sandboxes, containers))
    };
    let (sandboxes, containers) = match listed.await {
        Ok(lists) => lists,
        Err(error) => {
            ctx.runtime_trouble(&error);
            return;
        }
    };
    let mut fresh = Known::new();
    for sandbox in &sandboxes {
        if let Some(uid) = sandbox.labels.get(labels::POD_UID) {
            fresh
                .entry(uid.clone())
                .or_default()
                .insert(sandbox.id.clone(), sandbox.state);
        }
    }
    for container in &containers {
        if let Some(uid) = container.labels.get(labels::POD_UID) {
            // The offset separates container states from sandbox states.
            let state = container.state + 16;
            fresh
                .entry(uid.clone())
                .or_default()
                .insert(container.id.clone(), state);
        }
    }
    for (uid, state) in &fresh {
        match ctx.mailbox(uid) {
            Some(mailbox) if known.get(uid) != Some(state) => mailbox.touch(),
            Some(_) => {}
            None => ctx.stranger(uid),
        }
    }
    for uid in known.keys().filter(|uid| !fresh.contains_key(*uid)) {
        if let Some(mailbox) = ctx.mailbox(uid) {
            mailbox.touch();
        }
    }
    *known = fresh;
    ctx.metrics
        .relisted(begun.elapsed(), last.map(|last| begun.duration_since(last)));
    ctx.relisted();
    *last = Some(begun);
}
