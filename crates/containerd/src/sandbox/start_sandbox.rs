//! `StartSandbox`: the pod is there since it was made; from now on it counts as running.

use std::sync::Arc;

use orlop_ttrpc::{Writer, text};

use crate::Result;
use crate::files::too_soon;
use crate::shim::Shim;
use crate::tasks::{Phase, timestamp};

pub(super) fn call(shim: &Arc<Shim>, request: &[u8]) -> Result<Vec<u8>> {
    let id = text(request, 1);
    let mut tasks = shim.tasks.lock();
    let task = tasks.get(&id)?;
    if !task.process.is_alive() {
        return Err(too_soon(format!("the sandbox {id} has ended")));
    }
    task.process.phase = Phase::Running;
    let answer = Writer::default()
        .number(1, task.process.pid.into())
        .message(2, &timestamp(task.created_ns));
    Ok(answer.done())
}
