//! `Wait`: answers when a container, or a command, has ended.

use std::sync::Arc;

use orlop_containerd_api::Message;
use orlop_containerd_api::task::WaitRequest;

use crate::Result;
use crate::serve::Caller;
use crate::shim::Shim;

pub(super) fn call(
    shim: &Arc<Shim>,
    request: &WaitRequest,
    caller: &Caller,
) -> Result<Option<Vec<u8>>> {
    wait(shim, &request.id, &request.exec_id, caller)
}

/// The answer if it has ended; else the caller is answered when it does.
pub(crate) fn wait(shim: &Shim, id: &str, exec: &str, caller: &Caller) -> Result<Option<Vec<u8>>> {
    let mut tasks = shim.tasks.lock();
    let process = tasks.process(id, exec)?;
    let exit = process.exit;
    if exit.is_none() {
        process.waiting.push(caller.clone());
    }
    Ok(exit.map(|exit| exit.wait_response().encode_to_vec()))
}
