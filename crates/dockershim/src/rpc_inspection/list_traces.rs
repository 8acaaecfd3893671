//! `ListTraces`: where the time of the latest starts and pulls went.

use orlop_cri_api::inspection::{ListTracesRequest, ListTracesResponse};
use orlop_cri_server::timeline;

use crate::error::Result;
use crate::shim::Shim;

/// Answers the call.
pub(crate) async fn call(shim: &Shim, request: ListTracesRequest) -> Result<ListTracesResponse> {
    Ok(timeline::answer(&shim.traces, &request))
}
