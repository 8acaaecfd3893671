//! `Wait`: answers when a container, or a command, has ended.

use std::sync::Arc;

use super::names;
use crate::Result;
use crate::serve::Caller;
use crate::shim::Shim;

pub(super) fn call(shim: &Arc<Shim>, request: &[u8], caller: &Caller) -> Result<Option<Vec<u8>>> {
    let (id, exec) = names(request);
    wait(shim, &id, &exec, caller)
}

/// The answer if it has ended; else the caller is answered when it does.
pub(crate) fn wait(shim: &Shim, id: &str, exec: &str, caller: &Caller) -> Result<Option<Vec<u8>>> {
    let mut tasks = shim.tasks.lock();
    let process = tasks.process(id, exec)?;
    let exit = process.exit;
    if exit.is_none() {
        process.waiting.push(caller.clone());
    }
    Ok(exit.map(crate::tasks::Exit::encode))
}
