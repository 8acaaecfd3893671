//! Monitors the node's resources, and evicts pods if a threshold is crossed.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use orlop_cri_api::v1::FilesystemUsage;
use orlop_kuberuntime::manager::Stage;
use orlop_kuberuntime::measure::{IN_A_HURRY, measure};
use orlop_pool::blocking;

use super::demand::{amount, requests};
use super::eviction::{Candidate, Places, Pressure, Signal, Verdict, observe, rank};
use super::roster::Roster;
use super::shared::{Shared, now};

/// Interval of the checks, and the shorter interval after an eviction.
const PERIOD: Duration = Duration::from_secs(10);
const AGAIN: Duration = Duration::from_secs(2);

/// Checks the node once; returns when to check again.
pub(super) async fn look(
    shared: &Shared,
    pressure: &mut Pressure,
    roster: &mut Roster,
) -> Duration {
    let Some(mut verdict) = judge(shared, pressure).await else {
        return PERIOD;
    };
    if verdict.signal.condition() == "DiskPressure" {
        make_room(shared, verdict.signal, places(shared, pressure)).await;
        match judge(shared, pressure).await {
            Some(still) => verdict = still,
            None => return PERIOD,
        }
    }
    let places = places(shared, pressure);
    let (usage, what) = usage(shared, verdict.signal, places).await;
    let candidates = roster
        .running()
        .filter(|input| {
            let view = shared.manager().pod(input.uid());
            view.is_some_and(|view| view.stage == Stage::Syncing)
        })
        .map(|input| {
            let used = usage.get(input.uid()).copied().unwrap_or_default();
            let asked = amount(&requests(&input.pod), verdict.signal.resource());
            Candidate {
                uid: input.uid().to_owned(),
                priority: input.pod.spec.priority.unwrap_or(0),
                usage: used,
                request: u64::try_from(asked.units()).unwrap_or(0),
            }
        });
    let ranked = rank(candidates.collect());
    let Some(chosen) = ranked.first() else {
        tracing::error!(
            signal = verdict.signal.word(),
            available = verdict.available,
            "the node is low on a resource, but no pod can be evicted"
        );
        return PERIOD;
    };
    evict(shared, roster, chosen, verdict, what);
    AGAIN
}

/// Removes dead containers before any pod is evicted, and images if they use the scarce disk.
async fn make_room(shared: &Shared, signal: Signal, places: Places) {
    let images = blocking(move || places.images_count_for(signal)).await;
    let manager = shared.manager();
    let freed = if images.unwrap_or(true) {
        manager.reclaim_disk().await
    } else {
        manager.reclaim_containers().await.map(|()| 0)
    };
    let signal = signal.word();
    match freed {
        Ok(bytes) => tracing::warn!(bytes, signal, "removed dead containers and unused images"),
        Err(error) => tracing::warn!(%error, signal, "cannot free disk space"),
    }
}

async fn judge(shared: &Shared, pressure: &mut Pressure) -> Option<Verdict> {
    if pressure.images.is_none() {
        (pressure.images, pressure.containers) = filesystems(shared).await;
    }
    let places = places(shared, pressure);
    let seen = blocking(move || observe(&places)).await.ok()?;
    let verdict = pressure.update(&seen, now());
    shared.set_conditions(pressure.conditions());
    verdict
}

fn places(shared: &Shared, pressure: &Pressure) -> Places {
    Places {
        nodefs: shared.options().root_dir.clone(),
        imagefs: pressure.images.clone(),
        containerfs: pressure.containers.clone(),
    }
}

/// Returns the directories where the runtime keeps images and writable layers, if it reports them.
async fn filesystems(shared: &Shared) -> (Option<PathBuf>, Option<PathBuf>) {
    let Ok(answer) = shared.manager().images().image_fs_info().await else {
        return (None, None);
    };
    let first = |list: Vec<FilesystemUsage>| {
        let first = list.into_iter().next()?;
        Some(PathBuf::from(first.fs_id?.mountpoint))
    };
    (
        first(answer.image_filesystems),
        first(answer.container_filesystems),
    )
}

fn evict(shared: &Shared, roster: &mut Roster, chosen: &Candidate, verdict: Verdict, what: &str) {
    let signal = verdict.signal;
    let resource = signal.resource();
    let message = format!(
        "The node was low on resource: {resource}. Threshold quantity: {}, available: {}. {what} was \
         using {}, request is {}{}. ",
        verdict.threshold,
        verdict.available,
        chosen.usage,
        chosen.request,
        if chosen.usage > chosen.request {
            format!(", has larger consumption of {resource}")
        } else {
            String::new()
        },
    );
    let longest = shared.configuration().eviction_max_pod_grace_period;
    let grace = if verdict.graceful {
        u64::try_from(longest).map(Duration::from_secs).ok()
    } else {
        // The kubelet also gives only the shortest grace period that a runtime accepts.
        Some(Duration::from_secs(1))
    };
    tracing::warn!(pod = chosen.uid, signal = signal.word(), "{message}");
    shared
        .manager()
        .fail_pod(&chosen.uid, "Evicted", &message, grace);
    shared.manager().count_eviction(signal.word());
    roster.evicted(&chosen.uid);
}

/// Returns the usage of the scarce resource by pod.
async fn usage(
    shared: &Shared,
    signal: Signal,
    places: Places,
) -> (BTreeMap<String, u64>, &'static str) {
    let manager = shared.manager();
    let mut usage = BTreeMap::new();
    let containers = match manager.container_stats().await {
        Ok(stats) => stats,
        Err(error) => {
            tracing::warn!(%error, "cannot read container statistics; pods are ranked without them");
            BTreeMap::new()
        }
    };
    let layers = blocking(move || places.layers_count_for(signal)).await;
    let layers = layers.unwrap_or(true);
    for ((uid, _), stats) in containers {
        let layer = stats.writable_layer.filter(|_| layers);
        let value = |it: Option<orlop_cri_api::v1::UInt64Value>| it.map_or(0, |it| it.value);
        let used = match signal {
            Signal::Memory => stats
                .memory
                .map_or(0, |memory| value(memory.working_set_bytes)),
            Signal::NodeFsInodes | Signal::ImageFsInodes | Signal::ContainerFsInodes => {
                layer.map_or(0, |layer| value(layer.inodes_used))
            }
            Signal::NodeFs | Signal::ImageFs | Signal::ContainerFs => {
                layer.map_or(0, |layer| value(layer.used_bytes))
            }
            Signal::Pids => 0,
        };
        *usage.entry(uid).or_default() += used;
    }
    if signal == Signal::Pids
        && let Ok(pods) = manager.pod_stats().await
    {
        for (uid, stats) in pods {
            let process = stats.linux.and_then(|linux| linux.process);
            let count = process.and_then(|process| process.process_count);
            usage.insert(uid, count.map_or(0, |count| count.value));
        }
    }
    if matches!(signal, Signal::NodeFs | Signal::NodeFsInodes) {
        let pods = manager.pods();
        let options = manager.options();
        let (root, logs) = (options.root_dir.clone(), options.pod_logs_dir.clone());
        let inodes = signal == Signal::NodeFsInodes;
        let found = blocking(move || {
            let mut found = Vec::new();
            for pod in pods {
                let name = format!("{}_{}_{}", pod.namespace, pod.name, pod.uid);
                let volumes = root.join("pods").join(&pod.uid);
                let sizes = [logs.join(name), volumes].map(|directory| {
                    let measured = measure(&directory, IN_A_HURRY);
                    if inodes {
                        measured.inodes
                    } else {
                        measured.bytes
                    }
                });
                found.push((pod.uid.clone(), sizes[0] + sizes[1]));
            }
            found
        });
        for (uid, size) in found.await.unwrap_or_default() {
            *usage.entry(uid).or_default() += size;
        }
    }
    (usage, "The pod")
}
