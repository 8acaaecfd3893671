//! `ListPodSandboxStats`: what the pods that are ready use.

use std::sync::Arc;

use orlop_cri::v1::{
    ListPodSandboxStatsRequest, ListPodSandboxStatsResponse, PodSandboxFilter, PodSandboxState,
    PodSandboxStateValue, PodSandboxStatsFilter,
};

use crate::engine::Engine;
use crate::error::Result;
use crate::pod::Pod;
use crate::{blocking, stats};

/// Answers the call.
pub async fn call(
    engine: &Engine,
    request: ListPodSandboxStatsRequest,
) -> Result<ListPodSandboxStatsResponse> {
    let pods = chosen(engine, request.filter);
    let engine = engine.clone();
    let stats =
        blocking(move || Ok(pods.iter().map(|pod| stats::of_pod(&engine, pod)).collect())).await?;
    Ok(ListPodSandboxStatsResponse { stats })
}

/// The pods that are ready and that a filter chooses.
pub fn chosen(engine: &Engine, filter: Option<PodSandboxStatsFilter>) -> Vec<Arc<Pod>> {
    let filter = filter.unwrap_or_default();
    engine.visible_pods(Some(&PodSandboxFilter {
        id: filter.id,
        state: Some(PodSandboxStateValue {
            state: PodSandboxState::SandboxReady.into(),
        }),
        label_selector: filter.label_selector,
    }))
}
