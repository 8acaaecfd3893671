//! `ListEvents`: recent pod and container events.

use orlop_cri_api::inspection::{ListEventsRequest, ListEventsResponse};

use crate::error::Result;
use crate::shim::Shim;

pub(crate) async fn call(shim: &Shim, request: ListEventsRequest) -> Result<ListEventsResponse> {
    Ok(shim.events.subscribers.since(request.since))
}
