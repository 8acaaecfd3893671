//! The Task service. Each call has its file.

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
mod wait;

use std::sync::Arc;

use orlop_ttrpc::decode;

use crate::caller::Caller;
use crate::calls::{unary, unimplemented};
use crate::error::Result;
use crate::shim::Shim;

/// Handles a call; `None` if the response follows later.
pub(crate) fn call(
    shim: &Arc<Shim>,
    method: &str,
    request: &[u8],
    caller: &Caller,
) -> Result<Option<Vec<u8>>> {
    match method {
        "State" => unary(shim, request, state::call),
        "Create" => unary(shim, request, create::call),
        "Start" => start::call(shim, &decode(request)?, caller),
        "Delete" => unary(shim, request, delete::call),
        "Pids" => unary(shim, request, pids::call),
        "Pause" => unary(shim, request, pause::call),
        "Resume" => unary(shim, request, resume::call),
        "Checkpoint" => unary(shim, request, checkpoint::call),
        "Kill" => unary(shim, request, kill::call),
        "Exec" => unary(shim, request, exec::call),
        "ResizePty" => unary(shim, request, resize_pty::call),
        "CloseIO" => unary(shim, request, close_io::call),
        "Update" => unary(shim, request, update::call),
        "Wait" => wait::call(shim, &decode(request)?, caller),
        "Stats" => unary(shim, request, stats::call),
        "Connect" => unary(shim, request, connect::call),
        "Shutdown" => shutdown::call(shim, caller),
        _ => Err(unimplemented("Task", method)),
    }
}
