//! `ListMetricDescriptors`: the metrics there are, and their labels.

use orlop_cri_api::v1::{ListMetricDescriptorsRequest, ListMetricDescriptorsResponse};

use crate::engine::Engine;
use crate::error::Result;
use crate::stats::metrics;

/// Answers the call.
pub async fn call(
    _: &Engine,
    _: ListMetricDescriptorsRequest,
) -> Result<ListMetricDescriptorsResponse> {
    Ok(ListMetricDescriptorsResponse {
        descriptors: metrics::descriptors(),
    })
}
