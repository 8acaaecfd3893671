//! `WaitSandbox`: answers when the pod has ended.

use std::sync::Arc;

use orlop_containerd_api::sandbox::WaitSandboxRequest;

use crate::Result;
use crate::serve::Caller;
use crate::shim::Shim;
use crate::task::wait::wait;

pub(super) fn call(
    shim: &Arc<Shim>,
    request: &WaitSandboxRequest,
    caller: &Caller,
) -> Result<Option<Vec<u8>>> {
    wait(shim, &request.sandbox_id, "", caller)
}
