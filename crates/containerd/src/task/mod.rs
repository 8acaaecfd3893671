//! The task service: a call, a file.

mod checkpoint;
mod close_io;
mod connect;
mod create;
mod delete;
mod exec;
mod kill;
mod pause;
mod pids;
mod resize_pty;
mod resume;
mod shutdown;
mod start;
mod state;
mod stats;
mod update;
pub(crate) mod wait;

use std::sync::Arc;

use orlop_ttrpc::text;

use crate::Result;
use crate::serve::{Caller, unimplemented};
use crate::shim::Shim;

/// Answers a call, unless that is answered later.
pub(crate) fn call(
    shim: &Arc<Shim>,
    method: &str,
    request: &[u8],
    caller: &Caller,
) -> Result<Option<Vec<u8>>> {
    let answer = match method {
        "State" => state::call(shim, request),
        "Create" => create::call(shim, request),
        "Start" => return start::call(shim, request, caller),
        "Delete" => delete::call(shim, request),
        "Pids" => pids::call(shim, request),
        "Pause" => pause::call(shim, request),
        "Resume" => resume::call(shim, request),
        "Checkpoint" => checkpoint::call(shim, request),
        "Kill" => kill::call(shim, request),
        "Exec" => exec::call(shim, request),
        "ResizePty" => resize_pty::call(shim, request),
        "CloseIO" => close_io::call(shim, request),
        "Update" => update::call(shim, request),
        "Wait" => return wait::call(shim, request, caller),
        "Stats" => stats::call(shim, request),
        "Connect" => connect::call(shim, request),
        "Shutdown" => return shutdown::call(shim, caller),
        _ => Err(unimplemented("Task", method)),
    };
    answer.map(Some)
}

/// A container, and a command in it or none: the first fields of most requests.
fn names(request: &[u8]) -> (String, String) {
    (text(request, 1), text(request, 2))
}
