//! `ShutdownSandbox`: forgets the pod, and lets the server go.

use std::sync::Arc;

use orlop_ttrpc::text;

use crate::Result;
use crate::serve::{Caller, shut_down};
use crate::shim::Shim;

pub(super) fn call(shim: &Arc<Shim>, request: &[u8], caller: &Caller) -> Result<Option<Vec<u8>>> {
    let id = text(request, 1);
    if shim.tasks.lock().get(&id).is_ok() {
        shim.kill_pod(&id, libc::SIGKILL as u32);
        shim.forget(&id);
    }
    shut_down(shim, || caller.answer(&Ok(Vec::new())));
    Ok(None)
}
