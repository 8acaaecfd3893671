//! `ListMetricDescriptors`: the supported metrics.

use orlop_cri_api::v1::{ListMetricDescriptorsRequest, ListMetricDescriptorsResponse};
use orlop_cri_server::usage;

use crate::error::Result;
use crate::shim::Shim;

pub(crate) async fn call(
    _: &Shim,
    _: ListMetricDescriptorsRequest,
) -> Result<ListMetricDescriptorsResponse> {
    Ok(ListMetricDescriptorsResponse {
        descriptors: usage::descriptors(),
    })
}
