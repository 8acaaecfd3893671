//! `Connect`: tells which processes serve, and are, a container.

use std::sync::Arc;

use orlop_ttrpc::{Writer, text};

use crate::Result;
use crate::shim::Shim;

pub(super) fn call(shim: &Arc<Shim>, request: &[u8]) -> Result<Vec<u8>> {
    let id = text(request, 1);
    let pid = shim
        .tasks
        .lock()
        .process(&id, "")
        .map_or(0, |process| process.pid);
    let answer = Writer::default()
        .number(1, std::process::id().into())
        .number(2, pid.into())
        .text(3, env!("CARGO_PKG_VERSION"));
    Ok(answer.done())
}
