//! The Sandbox service: the pod by itself, before there is any container. A call, a file.

mod config;
mod create_sandbox;
mod files;
mod ping_sandbox;
mod platform;
mod sandbox_metrics;
mod sandbox_status;
mod shutdown_sandbox;
mod start_sandbox;
mod stop_sandbox;
mod wait_sandbox;

use std::sync::Arc;

pub(crate) use files::share_files;

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
        "CreateSandbox" => create_sandbox::call(shim, request),
        "StartSandbox" => start_sandbox::call(shim, request),
        "Platform" => Ok(platform::answer()),
        "StopSandbox" => stop_sandbox::call(shim, request),
        "WaitSandbox" => return wait_sandbox::call(shim, request, caller),
        "SandboxStatus" => sandbox_status::call(shim, request),
        "PingSandbox" => ping_sandbox::call(shim, request),
        "ShutdownSandbox" => return shutdown_sandbox::call(shim, request, caller),
        "SandboxMetrics" => sandbox_metrics::call(shim, request),
        _ => Err(unimplemented("Sandbox", method)),
    };
    answer.map(Some)
}
