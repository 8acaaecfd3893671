//! Resource usage of pods, with all their containers.

use std::collections::HashMap;
use std::sync::Arc;

use orlop_cri_api::v1::{
    ContainerStats, LinuxPodSandboxStats, PodSandboxAttributes, PodSandboxStats,
    PodSandboxStatsFilter,
};
use orlop_cri_server::usage::{Reading, of_interfaces};
use orlop_network::traffic_of;

use super::container::of_listed;
use super::place::{self, Place, Stats};
use crate::docker::Which;
use crate::docker::types::ContainerSummary;
use crate::error::{Error, Result};
use crate::{find, labels, names};

/// Returns the statistics of one pod.
pub(crate) async fn of(stats: &Stats, id: &str) -> Result<PodSandboxStats> {
    let found = find::sandbox(&stats.docker, id).await?;
    let filter = PodSandboxStatsFilter {
        id: found.id,
        ..Default::default()
    };
    let mut all = all(stats, filter, &[]).await?;
    all.pop().ok_or_else(|| {
        let what = "pod sandbox";
        Error::NotFound {
            what,
            id: id.to_owned(),
        }
        .into()
    })
}

/// Returns the statistics of the ready pods that match a filter.
pub(crate) async fn listed(
    stats: &Stats,
    filter: Option<PodSandboxStatsFilter>,
) -> Result<Vec<PodSandboxStats>> {
    all(stats, filter.unwrap_or_default(), &["running"]).await
}

async fn all(
    stats: &Stats,
    filter: PodSandboxStatsFilter,
    states: &[&str],
) -> Result<Vec<PodSandboxStats>> {
    let selector = filter.label_selector.iter();
    let which = Which {
        labels: std::iter::once(labels::filter(labels::KIND, labels::SANDBOX))
            .chain(selector.map(|(key, value)| labels::filter(key, value)))
            .collect(),
        id: (!filter.id.is_empty()).then(|| filter.id.clone()),
        states: states.iter().map(ToString::to_string).collect(),
    };
    let failed = || Error::engine("listing the running pods and containers");
    let sandboxes = find::ours(&stats.docker, &which).await.map_err(failed())?;
    let running = Which {
        labels: vec![labels::filter(labels::KIND, labels::CONTAINER)],
        states: vec!["running".into()],
        ..Which::default()
    };
    let containers = find::ours(&stats.docker, &running)
        .await
        .map_err(failed())?;
    let containers: Vec<_> = containers
        .into_iter()
        .filter(|one| {
            let sandbox = one.labels.get(labels::SANDBOX_ID);
            sandboxes.iter().any(|pod| Some(&pod.id) == sandbox)
        })
        .collect();
    let mut by_sandbox = grouped(&containers, of_listed(stats, &containers).await?);

    let mut places = Vec::with_capacity(sandboxes.len());
    for sandbox in sandboxes {
        match place::of(stats, &sandbox.id).await {
            Ok(place) => {
                let containers = by_sandbox.remove(&sandbox.id).unwrap_or_default();
                places.push((sandbox, place, containers));
            }
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    let read = orlop_pool::blocking(move || {
        places
            .into_iter()
            .filter_map(|(sandbox, place, containers)| figures(&sandbox, &place, containers))
            .collect()
    });
    Ok(read
        .await
        .map_err(|_| Error::Internal("a task panicked while reading the statistics".to_owned()))?)
}

fn grouped(
    containers: &[ContainerSummary],
    stats: Vec<ContainerStats>,
) -> HashMap<String, Vec<ContainerStats>> {
    let sandbox_of: HashMap<&str, &String> = containers
        .iter()
        .filter_map(|one| Some((one.id.as_str(), one.labels.get(labels::SANDBOX_ID)?)))
        .collect();
    let mut grouped: HashMap<String, Vec<ContainerStats>> = HashMap::new();
    for one in stats {
        let id = one
            .attributes
            .as_ref()
            .map_or("", |attributes| &attributes.id);
        if let Some(sandbox) = sandbox_of.get(id) {
            grouped.entry((*sandbox).clone()).or_default().push(one);
        }
    }
    grouped
}

/// Reads the statistics from files. They are those of the pod's cgroup if the kubelet made one, otherwise those of the
/// pause process.
fn figures(
    sandbox: &ContainerSummary,
    place: &Arc<Place>,
    containers: Vec<ContainerStats>,
) -> Option<PodSandboxStats> {
    let metadata = sandbox
        .names
        .iter()
        .find_map(|name| names::sandbox_of(name))?;
    let reading = if let Some((cgroup, meter)) = &place.pod {
        let mut meter = meter.lock();
        meter.read_pod(|| Some(cgroup.clone()), || None)
    } else {
        let mut meter = place.meter.lock();
        place
            .cgroup
            .as_ref()
            .and_then(|cgroup| meter.read_pod(|| Some(cgroup.clone()), || None))
    };
    let reading = reading.as_ref();
    let (own_labels, annotations) = labels::parted(&sandbox.labels);
    Some(PodSandboxStats {
        attributes: Some(PodSandboxAttributes {
            id: sandbox.id.clone(),
            metadata: Some(metadata),
            labels: own_labels,
            annotations,
        }),
        linux: Some(LinuxPodSandboxStats {
            cpu: reading.and_then(Reading::cpu),
            memory: reading.and_then(Reading::memory),
            network: (place.pid > 0 && !place.host_network)
                .then(|| of_interfaces(&traffic_of(place.pid.unsigned_abs()))),
            process: reading.and_then(Reading::processes),
            containers,
            io: reading.and_then(Reading::io),
        }),
        windows: None,
    })
}
