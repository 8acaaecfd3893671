//! Statistics and metrics calls of the runtime client.

use super::RuntimeClient;
use crate::client::ClientError;
use crate::client::call::{list, unary};
use crate::v1;

impl RuntimeClient {
    /// Returns the statistics of a container.
    pub async fn container_stats(
        &self,
        id: &str,
    ) -> Result<Option<v1::ContainerStats>, ClientError> {
        let message = v1::ContainerStatsRequest {
            container_id: id.to_owned(),
        };
        let usual = self.caller.usual();
        unary!(self.container_stats as ContainerStats within usual, message)
            .map(|answer| answer.stats)
    }

    /// Lists the statistics of the containers that match the filter.
    pub async fn list_container_stats(
        &self,
        filter: Option<v1::ContainerStatsFilter>,
    ) -> Result<Vec<v1::ContainerStats>, ClientError> {
        list!(self, stream_container_stats(
                StreamContainerStats, StreamContainerStatsRequest, container_stats)
            or list_container_stats(ListContainerStats, ListContainerStatsRequest, stats), filter)
    }

    /// Returns the statistics of a pod.
    pub async fn pod_sandbox_stats(
        &self,
        id: &str,
    ) -> Result<Option<v1::PodSandboxStats>, ClientError> {
        let message = v1::PodSandboxStatsRequest {
            pod_sandbox_id: id.to_owned(),
        };
        let usual = self.caller.usual();
        unary!(self.pod_sandbox_stats as PodSandboxStats within usual, message)
            .map(|answer| answer.stats)
    }

    /// Lists the statistics of the pods that match the filter.
    pub async fn list_pod_sandbox_stats(
        &self,
        filter: Option<v1::PodSandboxStatsFilter>,
    ) -> Result<Vec<v1::PodSandboxStats>, ClientError> {
        list!(self, stream_pod_sandbox_stats(
                StreamPodSandboxStats, StreamPodSandboxStatsRequest, pod_sandbox_stats)
            or list_pod_sandbox_stats(ListPodSandboxStats, ListPodSandboxStatsRequest, stats), filter)
    }

    /// Lists the metrics that [`Self::list_pod_sandbox_metrics`] can report.
    pub async fn list_metric_descriptors(&self) -> Result<Vec<v1::MetricDescriptor>, ClientError> {
        let message = v1::ListMetricDescriptorsRequest {};
        let usual = self.caller.usual();
        unary!(self.list_metric_descriptors as ListMetricDescriptors within usual, message)
            .map(|answer| answer.descriptors)
    }

    /// Lists the metrics of all pods.
    pub async fn list_pod_sandbox_metrics(
        &self,
    ) -> Result<Vec<v1::PodSandboxMetrics>, ClientError> {
        list!(self, stream_pod_sandbox_metrics(
                StreamPodSandboxMetrics, StreamPodSandboxMetricsRequest, pod_sandbox_metrics)
            or list_pod_sandbox_metrics(ListPodSandboxMetrics, ListPodSandboxMetricsRequest, pod_metrics))
    }
}
