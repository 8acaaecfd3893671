//! `ListMetricDescriptors`: returns the available metrics and their labels.

use orlop_cri_api::v1::{ListMetricDescriptorsRequest, ListMetricDescriptorsResponse};

use crate::engine::Engine;
use crate::error::Result;
use crate::stats::metrics;

/// Handles the `ListMetricDescriptors` call.
pub async fn call(
    _: &Engine,
    _: ListMetricDescriptorsRequest,
) -> Result<ListMetricDescriptorsResponse> {
    Ok(ListMetricDescriptorsResponse {
        descriptors: metrics::descriptors(),
    })
}
