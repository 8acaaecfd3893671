//! `ListMetricDescriptors`: not built yet.

use orlop_cri::v1::{ListMetricDescriptorsRequest, ListMetricDescriptorsResponse};

use crate::engine::Engine;
use crate::error::{Error, Result};

/// Answers that there is no such thing here.
pub async fn call(
    _: &Engine,
    _: ListMetricDescriptorsRequest,
) -> Result<ListMetricDescriptorsResponse> {
    Err(Error::Unimplemented("ListMetricDescriptors").into())
}
