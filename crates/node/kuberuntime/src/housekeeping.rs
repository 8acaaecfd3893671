//! Periodic work: checking the runtime, stopping orphaned pods, removing dead containers and
//! rotating logs; the kubelet's `HandlePodCleanups`, `GarbageCollect` and log manager.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use orlop_cri_api::client::ClientError;
use orlop_cri_api::v1;
use orlop_kubelet_rules::Timestamp;
use orlop_kubelet_rules::gc::{
    DeadContainer, PodFate, Sandbox, containers_to_remove, sandboxes_to_remove,
};
use orlop_kubelet_rules::labels::{self, stop_record};
use orlop_kubelet_rules::pod::Container;
use orlop_kubelet_rules::status::ContainerState;
use orlop_kubelet_rules::termination::MINIMUM_GRACE;

use crate::clock::now;
use crate::context::Context;
use crate::image_manager::ImageCollector;
use crate::logs::{RotateTarget, rotate};
use crate::pod_worker::{Victim, kill_all, stop_sandboxes};
use crate::runtime_state::{Handler, RuntimeState};

/// How often to check the runtime, while it is ready and while it is not.
const WELL: Duration = Duration::from_secs(30);
const UNWELL: Duration = Duration::from_secs(5);
/// How long the runtime's version stays valid before it is requested again.
const VERSION_LASTS: Duration = Duration::from_mins(1);

/// Requests the runtime's state periodically.
pub(crate) async fn watch_runtime(ctx: Arc<Context>) {
    let mut told = Instant::now();
    loop {
        ask_runtime(&ctx).await;
        if told.elapsed() >= VERSION_LASTS
            && let Ok(answer) = ctx.runtime.version().await
        {
            ctx.note_version(answer);
            told = Instant::now();
        }
        let state = ctx.runtime_state();
        let well = state.runtime_error.is_none() && state.network_error.is_none();
        tokio::select! {
            () = tokio::time::sleep(if well { WELL } else { UNWELL }) => {}
            () = ctx.runtime_asked.notified() => tokio::time::sleep(Duration::from_millis(500)).await,
        }
    }
}

/// Requests the runtime's state once and stores it.
pub(crate) async fn ask_runtime(ctx: &Context) {
    let answer = match ctx.runtime.status(false).await {
        Ok(answer) => answer,
        Err(error) => {
            ctx.runtime_trouble(&error);
            return;
        }
    };
    let condition = |kind: &str| {
        let conditions = answer.status.iter().flat_map(|status| &status.conditions);
        match conditions.clone().find(|c| c.r#type == kind) {
            Some(c) if c.status => None,
            Some(c) => Some(format!("{}: {}", c.reason, c.message)),
            None => Some(format!("the runtime does not report the condition {kind}")),
        }
    };
    let mut handlers: Vec<_> = answer
        .runtime_handlers
        .iter()
        .map(|handler| {
            let features = handler.features.unwrap_or_default();
            Handler {
                name: handler.name.clone(),
                recursive_read_only: features.recursive_read_only_mounts,
                user_namespaces: features.user_namespaces,
            }
        })
        .collect();
    handlers.sort();
    ctx.note_runtime(RuntimeState {
        runtime_error: condition("RuntimeReady"),
        network_error: condition("NetworkReady"),
        handlers,
        ..ctx.runtime_state()
    });
}

/// Stops orphaned pods and removes dead containers and sandboxes, periodically.
pub(crate) async fn collect(ctx: Arc<Context>) {
    let mut strangers_at_once = ctx.strangers.subscribe();
    loop {
        if let Err(error) = collect_once(&ctx).await {
            tracing::debug!(%error, "garbage collection failed");
        }
        strangers_at_once.borrow_and_update();
        tokio::select! {
            () = tokio::time::sleep(ctx.options.container_gc_period) => {}
            // Wait for the pod's other events, and for its manifest to be read.
            _ = strangers_at_once.changed() => tokio::time::sleep(Duration::from_secs(1)).await,
        }
    }
}

/// Runs one round of garbage collection.
pub(crate) async fn collect_once(ctx: &Arc<Context>) -> Result<(), ClientError> {
    let ready = ctx.sources_are_ready();
    let sandboxes = ctx.runtime.list_pod_sandbox(None).await?;
    let containers = ctx.runtime.list_containers(None).await?;
    if ready {
        end_strangers(ctx, &sandboxes, &containers);
    }
    remove_containers(ctx, &containers, ready).await;
    remove_sandboxes(ctx, &sandboxes, &containers, ready).await;
    if ready {
        remove_leftovers(ctx, &alive(&sandboxes, &containers)).await;
    }
    ctx.log_links.remove_dead().await;
    ctx.backoff().collect_garbage(now());
    Ok(())
}

fn uid(labels: &std::collections::HashMap<String, String>) -> Option<&String> {
    labels.get(labels::POD_UID)
}

/// Stops pods that have no worker, because their manifests were removed while the manager was not
/// running.
fn end_strangers(ctx: &Arc<Context>, sandboxes: &[v1::PodSandbox], containers: &[v1::Container]) {
    let mut strangers: BTreeMap<&String, Vec<&v1::Container>> = BTreeMap::new();
    for container in containers {
        if container.state() != v1::ContainerState::ContainerRunning {
            continue;
        }
        if let Some(uid) = uid(&container.labels).filter(|uid| ctx.mailbox(uid).is_none()) {
            strangers.entry(uid).or_default().push(container);
        }
    }
    for (uid, running) in strangers {
        ctx.metrics.pods().stranger();
        tracing::info!(
            uid,
            "stopping an orphaned pod: no manifest source defines it"
        );
        let victims = running
            .into_iter()
            .map(|container| {
                let get = |key: &str| container.annotations.get(key).map(String::as_str);
                let record = stop_record(get);
                let name = container.labels.get(labels::CONTAINER_NAME).cloned();
                let name = name.unwrap_or_default();
                let ports = get(labels::PORTS)
                    .and_then(|json| serde_json::from_slice(json.as_bytes()).ok());
                Victim {
                    id: container.id.clone(),
                    grace: record.grace.unwrap_or(MINIMUM_GRACE),
                    pre_stop: record.pre_stop,
                    container: Container {
                        name: name.clone(),
                        ports: ports.unwrap_or_default(),
                        ..Container::default()
                    },
                    name,
                    message: "Stopping a container whose pod no longer exists".to_owned(),
                }
            })
            .collect();
        let own: Vec<_> = sandboxes
            .iter()
            .filter(|sandbox| self::uid(&sandbox.labels) == Some(uid))
            .map(|sandbox| sandbox.id.clone())
            .collect();
        let ctx = ctx.clone();
        ctx.tasks.clone().spawn(async move {
            let quiet = |_: Option<&str>, _, _: &'static str, _: String| {};
            let ip = match own.first() {
                Some(id) => ctx.runtime.pod_sandbox_status(id, false).await.ok(),
                None => None,
            };
            let ip = ip
                .and_then(|answer| answer.status?.network)
                .and_then(|network| network.ip.parse().ok());
            let ended = kill_all(&ctx, victims, &[], ip, &quiet).await;
            let stopped = stop_sandboxes(&ctx, own.iter().map(String::as_str)).await;
            match ended.and(stopped) {
                // The next round removes what the pod leaves behind.
                Ok(()) => ctx.strangers.send_modify(|n| *n += 1),
                Err(error) => tracing::warn!(%error, "cannot stop an orphaned pod"),
            }
        });
    }
}

async fn remove_containers(ctx: &Context, containers: &[v1::Container], ready: bool) {
    let dead: Vec<_> = containers
        .iter()
        .filter(|c| {
            // A container in the state `Created` is about to be started by its worker.
            !matches!(
                c.state(),
                v1::ContainerState::ContainerRunning | v1::ContainerState::ContainerCreated
            )
        })
        .filter_map(|c| {
            let uid = uid(&c.labels)?;
            Some(DeadContainer {
                id: c.id.clone(),
                pod_uid: uid.clone(),
                name: c.labels.get(labels::CONTAINER_NAME)?.clone(),
                created_at: Timestamp(c.created_at),
                fate: fate(ctx, uid),
                unknown: ContainerState::from(c.state()) == ContainerState::Unknown,
            })
        })
        .collect();
    let policy = &ctx.options.container_gc;
    for container in containers_to_remove(&dead, policy, ready, now()) {
        if container.unknown {
            let _ = ctx
                .runtime
                .stop_container(&container.id, Duration::ZERO)
                .await;
        }
        let status = ctx.runtime.container_status(&container.id, false).await;
        if let Some(log) = status
            .ok()
            .and_then(|answer| answer.status)
            .map(|s| s.log_path)
        {
            remove_log(log).await;
        }
        if let Err(error) = ctx.runtime.remove_container(&container.id).await {
            tracing::warn!(id = container.id, %error, "cannot remove a dead container");
        }
    }
}

/// Removes a log and its rotated parts.
async fn remove_log(log: String) {
    let _ = orlop_pool::blocking(move || crate::logs::remove(Path::new(&log))).await;
}

async fn remove_sandboxes(
    ctx: &Context,
    sandboxes: &[v1::PodSandbox],
    containers: &[v1::Container],
    ready: bool,
) {
    let with_containers: BTreeSet<&str> = containers
        .iter()
        .map(|c| c.pod_sandbox_id.as_str())
        .collect();
    let known: Vec<_> = sandboxes
        .iter()
        .filter_map(|s| {
            let uid = uid(&s.labels)?;
            let in_use = s.state() == v1::PodSandboxState::SandboxReady
                || with_containers.contains(s.id.as_str());
            Some(Sandbox {
                id: s.id.clone(),
                pod_uid: uid.clone(),
                created_at: Timestamp(s.created_at),
                in_use,
                fate: if ready {
                    fate(ctx, uid)
                } else {
                    PodFate::Wanted
                },
            })
        })
        .collect();
    for sandbox in sandboxes_to_remove(&known) {
        let stopped = ctx.runtime.stop_pod_sandbox(&sandbox.id).await;
        if let Err(error) = stopped
            && !error.is_not_found()
        {
            tracing::warn!(id = sandbox.id, %error, "cannot stop a dead sandbox");
            continue;
        }
        if let Err(error) = ctx.runtime.remove_pod_sandbox(&sandbox.id).await {
            tracing::warn!(id = sandbox.id, %error, "cannot remove a dead sandbox");
        }
    }
}

fn fate(ctx: &Context, uid: &str) -> PodFate {
    if ctx.mailbox(uid).is_some() {
        PodFate::Wanted
    } else {
        PodFate::Gone
    }
}

/// Returns the uids of the pods of which something runs.
fn alive(sandboxes: &[v1::PodSandbox], containers: &[v1::Container]) -> BTreeSet<String> {
    let ready = sandboxes
        .iter()
        .filter(|s| s.state() == v1::PodSandboxState::SandboxReady)
        .filter_map(|s| uid(&s.labels));
    let running = containers
        .iter()
        .filter(|c| c.state() == v1::ContainerState::ContainerRunning)
        .filter_map(|c| uid(&c.labels));
    ready.chain(running).cloned().collect()
}

/// Removes the leftovers of unknown pods, once nothing of them runs: until then they use their
/// files and user ids.
async fn remove_leftovers(ctx: &Arc<Context>, alive: &BTreeSet<String>) {
    let mut known = alive.clone();
    ctx.with_workers(|workers| known.extend(workers.keys().cloned()));
    ctx.cgroups.remove_unknown(&known).await;
    let logs = ctx.options.pod_logs_dir.clone();
    let pods = ctx.options.root_dir.join("pods");
    let root = ctx.options.root_dir.clone();
    let user_namespaces = ctx.user_namespaces.clone();
    let remove = move || {
        for entry in std::fs::read_dir(&logs).into_iter().flatten().flatten() {
            let name = entry.file_name();
            // `<namespace>_<name>_<uid>`, a format that only this program writes.
            let Some((of_pod, uid)) = name.to_str().and_then(|n| n.rsplit_once('_')) else {
                continue;
            };
            if of_pod.contains('_') && !known.contains(uid) {
                let _ = orlop_fs::remove_tree(&entry.path());
            }
        }
        for entry in std::fs::read_dir(&pods).into_iter().flatten().flatten() {
            if let Some(uid) = entry
                .file_name()
                .to_str()
                .filter(|uid| !known.contains(*uid))
            {
                match crate::volumes::PodDirs::new(&root, uid).remove() {
                    Ok(()) => user_namespaces.release(uid),
                    Err(error) => {
                        tracing::warn!(uid, %error, "cannot remove the files of a deleted pod");
                    }
                }
            }
        }
    };
    let _ = orlop_pool::blocking(remove).await;
}

/// Removes unused images when the disk fills up, periodically.
pub(crate) async fn collect_images(ctx: Arc<Context>) {
    loop {
        tokio::time::sleep(ctx.options.images.gc_period).await;
        let mut collector = ctx.image_collector.lock().await;
        if let Err(error) = collect_images_once(&ctx, &mut collector, None).await {
            tracing::debug!(%error, "cannot collect unused images");
        }
    }
}

/// Runs one round of image collection.
pub(crate) async fn collect_images_once(
    ctx: &Context,
    collector: &mut ImageCollector,
    at_least: Option<u64>,
) -> Result<u64, ClientError> {
    let policy = &ctx.options.images.gc;
    let clients = (&ctx.runtime, &ctx.image_client);
    let mounted = mounted_images(ctx);
    collector
        .collect(
            clients,
            policy,
            at_least,
            mounted,
            (&ctx.metrics, &ctx.pulls),
        )
        .await
}

/// Returns the images mounted as volumes, which the list of containers does not include.
fn mounted_images(ctx: &Context) -> BTreeSet<String> {
    let observations: Vec<_> =
        ctx.with_workers(|workers| workers.values().map(|w| w.observation()).collect());
    observations
        .iter()
        .flat_map(|seen| seen.containers.values())
        .flat_map(|status| &status.mounts)
        .filter_map(|mount| mount.image.as_ref())
        .flat_map(|spec| [&spec.image, &spec.user_specified_image])
        .filter(|name| !name.is_empty())
        .cloned()
        .collect()
}

/// Rotates the logs of running containers, periodically.
pub(crate) async fn rotate_logs(ctx: Arc<Context>) {
    if ctx.options.logs.max_size == 0 {
        return;
    }
    loop {
        tokio::time::sleep(ctx.options.logs.period).await;
        let observations: Vec<_> =
            ctx.with_workers(|workers| workers.values().map(|w| w.observation()).collect());
        for observation in observations {
            for status in observation.containers.values() {
                let running = status.state() == v1::ContainerState::ContainerRunning;
                if !running || status.log_path.is_empty() {
                    continue;
                }
                let target = RotateTarget {
                    id: status.id.clone(),
                    path: status.log_path.clone().into(),
                };
                if let Err(error) = rotate(&ctx.runtime, &target, &ctx.options.logs).await {
                    tracing::warn!(id = target.id, error, "cannot rotate a log");
                }
            }
        }
    }
}
