//! `ListTraces`: timelines of the latest starts and pulls.

use orlop_cri_api::inspection::{ListTracesRequest, ListTracesResponse};
use orlop_cri_server::timeline;

use crate::error::Result;
use crate::shim::Shim;

pub(crate) async fn call(shim: &Shim, request: ListTracesRequest) -> Result<ListTracesResponse> {
    Ok(timeline::answer(&shim.traces, &request))
}
