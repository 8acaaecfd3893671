//! `CloseIO`: ends a process's standard input.

use std::sync::Arc;

use orlop_containerd_api::task::CloseIoRequest;

use crate::error::Result;
use crate::shim::Shim;

pub(super) fn call(shim: &Arc<Shim>, request: CloseIoRequest) -> Result<()> {
    if request.stdin {
        // It ends when the client, too, lets go of its end.
        shim.tasks
            .lock()
            .process(&request.id, &request.exec_id)?
            .stdin = None;
    }
    Ok(())
}
