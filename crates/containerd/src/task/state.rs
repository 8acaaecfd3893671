//! `State`: what a container, or a command, does.

use std::sync::Arc;

use orlop_ttrpc::Writer;

use super::names;
use crate::Result;
use crate::shim::Shim;
use crate::tasks::timestamp;

pub(super) fn call(shim: &Arc<Shim>, request: &[u8]) -> Result<Vec<u8>> {
    let (id, exec) = names(request);
    let mut tasks = shim.tasks.lock();
    let bundle = tasks.get(&id)?.bundle.clone();
    let process = tasks.process(&id, &exec)?;
    let mut answer = Writer::default()
        .text(1, if exec.is_empty() { &id } else { &exec })
        .text(2, &bundle.to_string_lossy())
        .number(3, process.pid.into())
        .number(4, process.phase.number())
        .text(5, &process.streams.stdin)
        .text(6, &process.streams.stdout)
        .text(7, &process.streams.stderr)
        .number(8, process.streams.terminal.into());
    if let Some(exit) = process.exit {
        answer = answer
            .number(9, exit.code.into())
            .message(10, &timestamp(exit.at_ns));
    }
    Ok(answer.text(11, &exec).done())
}
