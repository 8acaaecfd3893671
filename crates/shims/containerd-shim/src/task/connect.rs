//! `Connect`: returns the pids of the server and of a container.

use std::sync::Arc;

use orlop_containerd_api::task::{ConnectRequest, ConnectResponse};

use crate::error::Result;
use crate::shim::Shim;

pub(super) fn call(shim: &Arc<Shim>, request: ConnectRequest) -> Result<ConnectResponse> {
    let mut tasks = shim.tasks.lock();
    let process = tasks.process(&request.id, "");
    Ok(ConnectResponse {
        shim_pid: std::process::id(),
        task_pid: process.map_or(0, |process| process.pid),
        version: env!("CARGO_PKG_VERSION").into(),
    })
}
