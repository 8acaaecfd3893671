//! `StreamContainerStats`: streams the resource usage of the running containers, read as the client receives it.

use std::sync::Arc;

use orlop_cri_api::v1::{StreamContainerStatsRequest, StreamContainerStatsResponse};

use super::list_container_stats::chosen;
use crate::batches::{Answers, in_blocking_batches};
use crate::engine::Engine;
use crate::error::Result;
use crate::stats;

/// Handles the `StreamContainerStats` call.
pub async fn call(
    Engine(node): &Engine,
    request: StreamContainerStatsRequest,
) -> Result<Answers<StreamContainerStatsResponse>> {
    let containers = chosen(&node.containers, request.filter);
    let node = Arc::clone(node);
    Ok(in_blocking_batches(containers, move |batch| {
        StreamContainerStatsResponse {
            container_stats: batch
                .iter()
                .map(|one| stats::of_container(&node, one))
                .collect(),
        }
    }))
}
