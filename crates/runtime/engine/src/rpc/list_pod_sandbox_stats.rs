//! `ListPodSandboxStats`: returns the resource usage of the ready pods.

use std::sync::Arc;

use orlop_cri_api::v1::{
    ListPodSandboxStatsRequest, ListPodSandboxStatsResponse, PodSandboxFilter, PodSandboxState,
    PodSandboxStateValue, PodSandboxStatsFilter,
};

use crate::engine::Engine;
use crate::error::Result;
use crate::record::pod::Pod;
use crate::record::pods::Pods;
use crate::{blocking, stats};

/// Handles the `ListPodSandboxStats` call.
pub async fn call(
    Engine(node): &Engine,
    request: ListPodSandboxStatsRequest,
) -> Result<ListPodSandboxStatsResponse> {
    let pods = chosen(&node.pods, request.filter);
    let node = Arc::clone(node);
    let stats =
        blocking(move || Ok(pods.iter().map(|pod| stats::of_pod(&node, pod)).collect())).await?;
    Ok(ListPodSandboxStatsResponse { stats })
}

/// Returns the ready pods that match a filter.
pub fn chosen(pods: &Pods, filter: Option<PodSandboxStatsFilter>) -> Vec<Arc<Pod>> {
    let filter = filter.unwrap_or_default();
    pods.chosen(Some(&PodSandboxFilter {
        id: filter.id,
        state: Some(PodSandboxStateValue {
            state: PodSandboxState::SandboxReady.into(),
        }),
        label_selector: filter.label_selector,
    }))
}
