//! `ListTraces`: where the time of the latest starts and pulls went.

use orlop_cri_api::inspection::{ListTracesRequest, ListTracesResponse};

use crate::engine::Engine;
use crate::error::Result;
use crate::timeline::{self, Traces};

/// Answers the call.
pub async fn call(Engine(node): &Engine, request: ListTracesRequest) -> Result<ListTracesResponse> {
    Ok(timeline::answer(&node.traces, &request))
}

impl Engine {
    /// Where the time of the latest starts and pulls went.
    pub fn traces(&self) -> &Traces {
        &self.0.traces
    }
}
