//! `Wait`: responds when a container or a command has ended.

use std::sync::Arc;

use orlop_containerd_api::task::WaitRequest;

use crate::caller::Caller;
use crate::error::Result;
use crate::shim::Shim;

pub(super) fn call(
    shim: &Arc<Shim>,
    request: &WaitRequest,
    caller: &Caller,
) -> Result<Option<Vec<u8>>> {
    shim.wait(&request.id, &request.exec_id, caller)
}
