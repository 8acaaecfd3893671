//! `ListEvents`: returns recent events of pods and containers.

use orlop_cri_api::inspection::{ListEventsRequest, ListEventsResponse};

use crate::engine::Engine;
use crate::error::Result;

/// Handles the `ListEvents` call.
pub async fn call(Engine(node): &Engine, request: ListEventsRequest) -> Result<ListEventsResponse> {
    Ok(node.events.since(request.since))
}
