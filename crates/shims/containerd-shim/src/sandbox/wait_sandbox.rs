//! `WaitSandbox`: responds when the pod has ended.

use std::sync::Arc;

use orlop_containerd_api::sandbox::WaitSandboxRequest;

use crate::caller::Caller;
use crate::error::Result;
use crate::shim::Shim;

pub(super) fn call(
    shim: &Arc<Shim>,
    request: &WaitSandboxRequest,
    caller: &Caller,
) -> Result<Option<Vec<u8>>> {
    shim.wait(&request.sandbox_id, "", caller)
}
