//! `CloseIO`: closes a process's standard input.

use std::sync::Arc;

use orlop_containerd_api::task::CloseIoRequest;

use crate::error::Result;
use crate::shim::Shim;

pub(super) fn call(shim: &Arc<Shim>, request: CloseIoRequest) -> Result<()> {
    if request.stdin {
        // The input ends when the client closes its end, too.
        shim.tasks
            .lock()
            .process(&request.id, &request.exec_id)?
            .stdin = None;
    }
    Ok(())
}
