//! `CloseIO`: ends a process's standard input.

use std::sync::Arc;

use orlop_ttrpc::number;

use super::names;
use crate::Result;
use crate::shim::Shim;

pub(super) fn call(shim: &Arc<Shim>, request: &[u8]) -> Result<Vec<u8>> {
    let (id, exec) = names(request);
    if number(request, 3) != 0 {
        // It ends when the client, too, lets go of its end.
        shim.tasks.lock().process(&id, &exec)?.stdin = None;
    }
    Ok(Vec::new())
}
