//! `ListEvents`: what has happened to pods and containers of late.

use orlop_cri_api::inspection::{ListEventsRequest, ListEventsResponse};

use crate::engine::Engine;
use crate::error::Result;

/// Answers the call.
pub async fn call(Engine(node): &Engine, request: ListEventsRequest) -> Result<ListEventsResponse> {
    Ok(node.events.since(request.since))
}
