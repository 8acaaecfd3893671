//! `SandboxStatus`: the state of the pod.

use std::sync::Arc;

use orlop_containerd_api::Timestamp;
use orlop_containerd_api::sandbox::{SandboxStatusRequest, SandboxStatusResponse};

use crate::error::Result;
use crate::shim::Shim;
use crate::tasks::Exit;

/// Names of the states in containerd.
const READY: &str = "SANDBOX_READY";
const NOT_READY: &str = "SANDBOX_NOTREADY";

pub(super) fn call(
    shim: &Arc<Shim>,
    request: SandboxStatusRequest,
) -> Result<SandboxStatusResponse> {
    let id = request.sandbox_id;
    let mut tasks = shim.tasks.lock();
    let task = tasks.get(&id)?;
    let state = if task.process.is_alive() {
        READY
    } else {
        NOT_READY
    };
    let mut response = SandboxStatusResponse {
        sandbox_id: id,
        pid: task.process.pid,
        state: state.into(),
        created_at: Some(Timestamp::from_nanos(task.created_ns)),
        exited_at: task.process.exit.map(Exit::time),
        ..SandboxStatusResponse::default()
    };
    if request.verbose {
        let keeper = shim.keeper().map_or(0, |keeper| keeper.pid);
        response.info = [("keeper".to_owned(), keeper.to_string())].into();
    }
    Ok(response)
}
