//! `WaitSandbox`: answers when the pod has ended.

use std::sync::Arc;

use orlop_ttrpc::text;

use crate::Result;
use crate::serve::Caller;
use crate::shim::Shim;
use crate::task::wait::wait;

pub(super) fn call(shim: &Arc<Shim>, request: &[u8], caller: &Caller) -> Result<Option<Vec<u8>>> {
    wait(shim, &text(request, 1), "", caller)
}
