//! `SandboxMetrics`: resource usage of the pod without its containers, that is, of its keeper.

use std::sync::Arc;

use orlop_containerd_api::Timestamp;
use orlop_containerd_api::sandbox::{SandboxMetricsRequest, SandboxMetricsResponse};
use orlop_containerd_api::types::Metric;

use crate::error::Result;
use crate::metrics;
use crate::shim::Shim;
use crate::tasks::now;

pub(super) fn call(
    shim: &Arc<Shim>,
    request: SandboxMetricsRequest,
) -> Result<SandboxMetricsResponse> {
    let id = request.sandbox_id;
    let cgroup = shim.tasks.lock().get(&id)?.cgroup.clone();
    let data = Some(metrics::of(cgroup.as_ref())?);
    Ok(SandboxMetricsResponse {
        metrics: Some(Metric {
            timestamp: Some(Timestamp::from_nanos(now())),
            id,
            data,
        }),
    })
}
