//! `PingSandbox`: checks that the pod exists.

use std::sync::Arc;

use orlop_containerd_api::sandbox::PingRequest;

use crate::error::Result;
use crate::shim::Shim;

pub(super) fn call(shim: &Arc<Shim>, request: PingRequest) -> Result<()> {
    shim.tasks.lock().get(&request.sandbox_id).map(drop)
}
