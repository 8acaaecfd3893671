//! `State`: the state of a container or a command.

use std::sync::Arc;

use orlop_containerd_api::task::{StateRequest, StateResponse};

use crate::error::Result;
use crate::shim::Shim;
use crate::tasks::Exit;

pub(super) fn call(shim: &Arc<Shim>, request: StateRequest) -> Result<StateResponse> {
    let StateRequest { id, exec_id } = request;
    let mut tasks = shim.tasks.lock();
    let bundle = tasks.get(&id)?.bundle.to_string_lossy().into_owned();
    let process = tasks.process(&id, &exec_id)?;
    let streams = process.streams.clone();
    let mut response = StateResponse {
        id: if exec_id.is_empty() {
            id
        } else {
            exec_id.clone()
        },
        bundle,
        pid: process.pid,
        stdin: streams.stdin,
        stdout: streams.stdout,
        stderr: streams.stderr,
        terminal: streams.terminal,
        exit_status: process.exit.map_or(0, |exit| exit.code),
        exited_at: process.exit.map(Exit::time),
        exec_id,
        ..StateResponse::default()
    };
    response.set_status(process.phase.status());
    Ok(response)
}
