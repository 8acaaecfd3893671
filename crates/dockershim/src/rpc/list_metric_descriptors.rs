//! `ListMetricDescriptors`: the metrics there are.

use orlop_cri::v1::{ListMetricDescriptorsRequest, ListMetricDescriptorsResponse};
use orlop_service::usage;

use crate::error::Result;
use crate::shim::Shim;

/// Answers the call.
pub(crate) async fn call(
    _: &Shim,
    _: ListMetricDescriptorsRequest,
) -> Result<ListMetricDescriptorsResponse> {
    Ok(ListMetricDescriptorsResponse {
        descriptors: usage::descriptors(),
    })
}
