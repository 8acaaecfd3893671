//! `StopSandbox`: ends the pod and its remaining processes.

use std::sync::Arc;

use orlop_containerd_api::sandbox::StopSandboxRequest;
use orlop_keeper_protocol::Kill;

use crate::error::Result;
use crate::keeper::LIMIT;
use crate::shim::Shim;

pub(super) fn call(shim: &Arc<Shim>, request: StopSandboxRequest) -> Result<()> {
    let id = request.sandbox_id;
    let alive: Vec<String> = {
        let mut tasks = shim.tasks.lock();
        tasks.get(&id)?;
        let containers = tasks.0.iter();
        let alive = containers.filter(|(_, it)| it.runtime.is_some() && it.process.is_alive());
        alive.map(|(id, _)| id.clone()).collect()
    };
    for container in alive {
        let request = Kill {
            container,
            signal: libc::SIGKILL as u32,
            call: None,
        };
        // A pod that has just ended cannot be killed.
        let _ = shim
            .keeper()?
            .call("killing a container", &request, &[], LIMIT);
    }
    shim.kill_pod(&id, libc::SIGKILL as u32);
    Ok(())
}
