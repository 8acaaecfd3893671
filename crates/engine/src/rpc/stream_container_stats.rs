//! `StreamContainerStats`: what the running containers use, read as the client takes it.

use orlop_cri::v1::{StreamContainerStatsRequest, StreamContainerStatsResponse};

use super::list_container_stats::chosen;
use crate::engine::Engine;
use crate::error::Result;
use crate::service::{Answers, in_blocking_batches};
use crate::stats;

/// Answers the call.
pub async fn call(
    engine: &Engine,
    request: StreamContainerStatsRequest,
) -> Result<Answers<StreamContainerStatsResponse>> {
    let containers = chosen(engine, request.filter);
    let engine = engine.clone();
    Ok(in_blocking_batches(containers, move |batch| {
        StreamContainerStatsResponse {
            container_stats: batch
                .iter()
                .map(|one| stats::of_container(&engine, one))
                .collect(),
        }
    }))
}
