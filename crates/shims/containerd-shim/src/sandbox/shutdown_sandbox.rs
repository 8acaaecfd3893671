//! `ShutdownSandbox`: removes the pod and stops the server.

use std::sync::Arc;

use orlop_containerd_api::sandbox::ShutdownSandboxRequest;

use crate::caller::Caller;
use crate::error::Result;
use crate::shim::Shim;
use crate::shut_down::shut_down;

pub(super) fn call(
    shim: &Arc<Shim>,
    request: &ShutdownSandboxRequest,
    caller: &Caller,
) -> Result<Option<Vec<u8>>> {
    let id = &request.sandbox_id;
    if shim.tasks.lock().get(id).is_ok() {
        shim.kill_pod(id, libc::SIGKILL as u32);
        shim.forget(id);
    }
    shut_down(shim, || caller.answer(&Ok(Vec::new())));
    Ok(None)
}
