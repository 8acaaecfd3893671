//! `SandboxStatus`: what the pod does.

use std::sync::Arc;

use orlop_ttrpc::{Writer, number, text};

use crate::Result;
use crate::shim::Shim;
use crate::tasks::timestamp;

/// States in containerd's words.
const READY: &str = "SANDBOX_READY";
const NOT_READY: &str = "SANDBOX_NOTREADY";

pub(super) fn call(shim: &Arc<Shim>, request: &[u8]) -> Result<Vec<u8>> {
    let (id, verbose) = (text(request, 1), number(request, 2) != 0);
    let mut tasks = shim.tasks.lock();
    let task = tasks.get(&id)?;
    let state = if task.process.is_alive() {
        READY
    } else {
        NOT_READY
    };
    let mut answer = Writer::default()
        .text(1, &id)
        .number(2, task.process.pid.into())
        .text(3, state);
    if verbose {
        let entry = Writer::default().text(1, "keeper");
        let keeper = shim.keeper().map_or(0, |keeper| keeper.pid);
        answer = answer.message(4, &entry.text(2, &keeper.to_string()).done());
    }
    answer = answer.message(5, &timestamp(task.created_ns));
    if let Some(exit) = task.process.exit {
        answer = answer.message(6, &timestamp(exit.at_ns));
    }
    Ok(answer.done())
}
