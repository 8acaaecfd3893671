//! Resource usage of containers.

use std::path::Path;
use std::sync::Arc;

use orlop_cri_api::v1::{ContainerAttributes, ContainerStats, ContainerStatsFilter, MemoryUsage};
use orlop_cri_server::usage::{Reading, value};

use super::place::{self, Place, Stats};
use crate::docker::Which;
use crate::docker::types::{ContainerSummary, Resources};
use crate::error::{Error, Result};
use crate::{find, labels, names};

/// Returns the statistics of one container.
pub(crate) async fn of(stats: &Stats, id: &str) -> Result<ContainerStats> {
    let found = find::container(&stats.docker, id).await?;
    let (own_labels, annotations) = labels::parted(&found.config.labels);
    let attributes = ContainerAttributes {
        id: found.id.clone(),
        metadata: names::container_of(&found.name),
        labels: own_labels,
        annotations,
    };
    let place = place::of(stats, &found.id).await?;
    read(stats, vec![(attributes, place)])
        .await?
        .pop()
        .ok_or_else(|| {
            Error::Internal("the statistics of the container are missing".to_owned()).into()
        })
}

/// Returns the statistics of the running containers that match a filter.
pub(crate) async fn listed(
    stats: &Stats,
    filter: Option<ContainerStatsFilter>,
) -> Result<Vec<ContainerStats>> {
    let filter = filter.unwrap_or_default();
    let mut which = Which {
        labels: vec![labels::filter(labels::KIND, labels::CONTAINER)],
        id: (!filter.id.is_empty()).then_some(filter.id),
        states: vec!["running".into()],
    };
    if !filter.pod_sandbox_id.is_empty() {
        which
            .labels
            .push(labels::filter(labels::SANDBOX_ID, &filter.pod_sandbox_id));
    }
    let selector = filter.label_selector.iter();
    which
        .labels
        .extend(selector.map(|(key, value)| labels::filter(key, value)));
    let listed = find::ours(&stats.docker, &which).await;
    let listed = listed.map_err(Error::engine("listing the running containers"))?;
    of_listed(stats, &listed).await
}

/// Returns the statistics of these containers.
pub(super) async fn of_listed(
    stats: &Stats,
    listed: &[ContainerSummary],
) -> Result<Vec<ContainerStats>> {
    read(stats, places(stats, listed).await?).await
}

async fn places(
    stats: &Stats,
    listed: &[ContainerSummary],
) -> Result<Vec<(ContainerAttributes, Arc<Place>)>> {
    let mut places = Vec::with_capacity(listed.len());
    for one in listed {
        let Some(metadata) = one.names.iter().find_map(|name| names::container_of(name)) else {
            continue;
        };
        let (own_labels, annotations) = labels::parted(&one.labels);
        let attributes = ContainerAttributes {
            id: one.id.clone(),
            metadata: Some(metadata),
            labels: own_labels,
            annotations,
        };
        match place::of(stats, &one.id).await {
            Ok(place) => places.push((attributes, place)),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(places)
}

async fn read(
    from: &Stats,
    places: Vec<(ContainerAttributes, Arc<Place>)>,
) -> Result<Vec<ContainerStats>> {
    let mountpoint = from.info.get().await?.docker_root_dir.clone();
    let mut all = orlop_pool::blocking(move || {
        places
            .into_iter()
            .map(|(attributes, place)| {
                let stats = figures(attributes, &place, Path::new(&mountpoint));
                (stats, place)
            })
            .collect::<Vec<_>>()
    })
    .await
    .map_err(|_| Error::Internal("a task panicked while reading the statistics".to_owned()))?;
    for (stats, place) in &mut all {
        if place.upper.is_none()
            && let Some(attributes) = &stats.attributes
        {
            // With another storage driver, the engine computes the size itself.
            let size = from
                .docker
                .container_size(&attributes.id)
                .await
                .ok()
                .flatten();
            if let Some(layer) = &mut stats.writable_layer {
                layer.used_bytes = size.and_then(value);
                layer.inodes_used = None;
            }
        }
    }
    Ok(all.into_iter().map(|(stats, _)| stats).collect())
}

/// Returns memory usage. If the cgroup has no limit, the engine's limit applies: crun sets it in a child cgroup.
fn memory(reading: &Reading, limits: &Resources) -> Option<MemoryUsage> {
    let mut usage = reading.memory()?;
    let counted = reading.stats().memory.as_ref()?;
    let limit = u64::try_from(limits.memory).unwrap_or(0);
    if counted.available().is_none() && limit > 0 {
        usage.available_bytes = value(limit.saturating_sub(counted.working_set));
    }
    Some(usage)
}

/// Reads the statistics from files.
fn figures(attributes: ContainerAttributes, place: &Place, mountpoint: &Path) -> ContainerStats {
    let mut meter = place.meter.lock();
    let reading = place
        .cgroup
        .as_ref()
        .and_then(|cgroup| meter.read_usual(|| Some(cgroup.clone())));
    let reading = reading.as_ref();
    let nowhere = Path::new("");
    let upper = place.upper.as_deref().unwrap_or(nowhere);
    ContainerStats {
        attributes: Some(attributes),
        cpu: reading.and_then(Reading::cpu),
        memory: reading.and_then(|reading| memory(reading, &place.limits)),
        writable_layer: Some(meter.layer.usage(|| vec![upper.to_owned()], mountpoint)),
        swap: reading.and_then(Reading::swap),
        io: reading.and_then(Reading::io),
    }
}
