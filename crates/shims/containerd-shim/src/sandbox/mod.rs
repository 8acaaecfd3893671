//! The Sandbox service: the pod before it has any container. Each call has its file.

mod config;
mod create_sandbox;
mod ping_sandbox;
mod platform;
mod sandbox_metrics;
mod sandbox_status;
mod shutdown_sandbox;
mod start_sandbox;
mod stop_sandbox;
mod wait_sandbox;

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
        "CreateSandbox" => unary(shim, request, create_sandbox::call),
        "StartSandbox" => unary(shim, request, start_sandbox::call),
        "Platform" => unary(shim, request, platform::call),
        "StopSandbox" => unary(shim, request, stop_sandbox::call),
        "WaitSandbox" => wait_sandbox::call(shim, &decode(request)?, caller),
        "SandboxStatus" => unary(shim, request, sandbox_status::call),
        "PingSandbox" => unary(shim, request, ping_sandbox::call),
        "ShutdownSandbox" => shutdown_sandbox::call(shim, &decode(request)?, caller),
        "SandboxMetrics" => unary(shim, request, sandbox_metrics::call),
        _ => Err(unimplemented("Sandbox", method)),
    }
}
