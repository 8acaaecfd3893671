//! Resource usage of pods and containers, and metrics.

use std::collections::BTreeMap;

use orlop_cri_api::v1;
use orlop_kubelet_rules::labels;
use orlop_kubelet_rules::status::ContainerState;

use super::Manager;
use crate::cgroups::CgroupUsage;
use crate::context::Workers;
use crate::error::RequestError;
use crate::housekeeping;

impl Manager {
    /// Returns the sandbox statistics that the runtime reports, by pod uid.
    pub async fn pod_stats(&self) -> Result<BTreeMap<String, v1::PodSandboxStats>, RequestError> {
        let all = self.ctx.runtime.list_pod_sandbox_stats(None).await?;
        let mut by_uid = BTreeMap::new();
        for stats in all {
            let uid = stats
                .attributes
                .as_ref()
                .and_then(|a| a.metadata.as_ref())
                .map(|m| m.uid.clone());
            if let Some(uid) = uid.filter(|uid| self.ctx.mailbox(uid).is_some()) {
                by_uid.insert(uid, stats);
            }
        }
        Ok(by_uid)
    }

    /// Returns the container statistics that the runtime reports, by pod uid and container.
    pub async fn container_stats(
        &self,
    ) -> Result<BTreeMap<(String, String), v1::ContainerStats>, RequestError> {
        let all = self.ctx.runtime.list_container_stats(None).await?;
        let mut by_name = BTreeMap::new();
        for stats in all {
            let Some(attributes) = &stats.attributes else {
                continue;
            };
            let of = |label: &str| attributes.labels.get(label).cloned();
            if let (Some(uid), Some(name)) = (of(labels::POD_UID), of(labels::CONTAINER_NAME)) {
                by_name.insert((uid, name), stats);
            }
        }
        Ok(by_name)
    }

    /// Reads the usage of all pods together from their cgroup. Blocks.
    pub fn pods_usage(&self) -> Option<CgroupUsage> {
        self.ctx.cgroups.usage()
    }

    /// Returns the kubelet's metrics in the text format, for `/metrics`.
    pub fn metrics(&self) -> String {
        self.count_running();
        self.ctx.metrics.text()
    }

    /// Counts running pods and containers from the workers' observations: with runtime events,
    /// minutes pass between lists.
    fn count_running(&self) {
        let workers = |workers: &mut Workers| {
            let seen = workers.values().map(|worker| worker.observation());
            seen.collect::<Vec<_>>()
        };
        let (mut pods, mut counts) = (0, [0; 4]);
        for seen in self.ctx.with_workers(workers) {
            pods += usize::from(seen.status.sandboxes().iter().any(|it| it.ready));
            for container in seen.status.containers() {
                counts[match container.state {
                    ContainerState::Created => 0,
                    ContainerState::Running => 1,
                    ContainerState::Exited => 2,
                    ContainerState::Unknown => 3,
                }] += 1;
            }
        }
        self.ctx.metrics.running(pods, counts);
    }

    /// Counts an eviction caused by node pressure.
    pub fn count_eviction(&self, signal: &str) {
        self.ctx.metrics.pods().evicted(signal);
    }

    /// Returns the cgroup version of the node.
    pub fn cgroup_version(&self) -> u8 {
        if self.ctx.cgroups.unified() { 2 } else { 1 }
    }

    /// Returns the probe metrics in the text format, for `/metrics/probes`.
    pub fn probe_metrics(&self) -> String {
        self.ctx.metrics.probe_text()
    }

    /// Removes dead containers and sandboxes now.
    pub async fn reclaim_containers(&self) -> Result<(), RequestError> {
        Ok(housekeeping::collect_once(&self.ctx).await?)
    }

    /// Removes dead containers, sandboxes and all unused images now, as under disk pressure;
    /// returns the freed bytes of images.
    pub async fn reclaim_disk(&self) -> Result<u64, RequestError> {
        self.reclaim_containers().await?;
        let mut collector = self.ctx.image_collector.lock().await;
        let all = Some(u64::MAX);
        Ok(housekeeping::collect_images_once(&self.ctx, &mut collector, all).await?)
    }
}
