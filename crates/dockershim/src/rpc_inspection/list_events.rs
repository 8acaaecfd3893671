//! `ListEvents`: what has happened to pods and containers of late.

use orlop_cri_api::inspection::{ListEventsRequest, ListEventsResponse};

use crate::error::Result;
use crate::shim::Shim;

/// Answers the call.
pub(crate) async fn call(shim: &Shim, request: ListEventsRequest) -> Result<ListEventsResponse> {
    Ok(shim.events.subscribers.since(request.since))
}
