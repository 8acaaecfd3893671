//! `Stats`: resource usage of a container.

use std::sync::Arc;

use orlop_containerd_api::task::{StatsRequest, StatsResponse};

use crate::error::Result;
use crate::metrics;
use crate::shim::Shim;

pub(super) fn call(shim: &Arc<Shim>, request: StatsRequest) -> Result<StatsResponse> {
    let cgroup = shim.tasks.lock().get(&request.id)?.cgroup.clone();
    let stats = Some(metrics::of(cgroup.as_ref())?);
    Ok(StatsResponse { stats })
}
