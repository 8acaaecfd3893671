//! `ListTraces`: returns timings of the latest starts and pulls.

use orlop_cri_api::inspection::{ListTracesRequest, ListTracesResponse};

use crate::engine::Engine;
use crate::error::Result;
use crate::timeline::{self, Traces};

/// Handles the `ListTraces` call.
pub async fn call(Engine(node): &Engine, request: ListTracesRequest) -> Result<ListTracesResponse> {
    Ok(timeline::answer(&node.traces, &request))
}

impl Engine {
    /// Timings of the latest starts and pulls.
    pub fn traces(&self) -> &Traces {
        &self.0.traces
    }
}
