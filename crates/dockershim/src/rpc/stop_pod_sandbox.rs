//! `StopPodSandbox`: stops all containers of a pod and tears down its network. Idempotent, and works for a sandbox
//! that only has a checkpoint.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use orlop_cri_api::v1::{StopPodSandboxRequest, StopPodSandboxResponse};

use crate::checkpoint::{Checkpoint, is_id};
use crate::docker::types::Container;
use crate::error::{Error, Result, gathered};
use crate::find;
use crate::shim::Shim;

/// How long the pause process may take to exit.
const GRACE: Duration = Duration::from_secs(10);

pub(crate) async fn call(
    shim: &Shim,
    request: StopPodSandboxRequest,
) -> Result<StopPodSandboxResponse> {
    let id = request.pod_sandbox_id;
    shim.remembered.forget(&id);
    match find::sandbox(&shim.docker, &id).await {
        Ok(found) => {
            let checkpoint = shim.checkpoints.read(&found.id).await;
            stop(shim, &found.id, Some(&found), checkpoint.as_ref()).await?;
        }
        Err(error) if error.is_not_found() && is_id(&id) => {
            // The engine does not know the sandbox, but its containers may still run.
            if let Some(checkpoint) = shim.checkpoints.read(&id).await {
                let mut errors = kill_containers(shim, &id).await;
                let detached = shim.network.detach(&id, None, Some(&checkpoint)).await;
                errors.extend(detached.err());
                gathered(errors)?;
                shim.checkpoints.remove(&id).await?;
            }
        }
        Err(error) if error.is_not_found() => {}
        Err(error) => return Err(error),
    }
    Ok(StopPodSandboxResponse {})
}

/// Stops a sandbox that the engine knows.
pub(crate) async fn stop(
    shim: &Shim,
    id: &str,
    found: Option<&Container>,
    checkpoint: Option<&Checkpoint>,
) -> Result<()> {
    let mut errors = kill_containers(shim, id).await;
    // Before the pause process ends: plugins find the network namespace by it.
    if let Err(error) = shim.network.detach(id, found, checkpoint).await {
        errors.push(error);
    }
    match shim.docker.stop_container(id, GRACE).await {
        Ok(()) => {}
        Err(error) if error.is_not_found() => {}
        Err(error) => {
            errors.push(Error::engine(format!("stopping pod sandbox {id}"))(error).into());
        }
    }
    gathered(errors)
}

async fn kill_containers(shim: &Shim, sandbox: &str) -> Vec<Arc<Error>> {
    let containers = match find::containers_of(&shim.docker, sandbox).await {
        Ok(containers) => containers,
        Err(error) => return vec![error],
    };
    let running = containers.into_iter().filter(|one| one.state == "running");
    let stopped = join_all(running.map(|one| async move {
        match shim.docker.stop_container(&one.id, Duration::ZERO).await {
            Err(error) if !error.is_not_found() => Err(Error::engine(format!(
                "stopping container {}",
                one.id
            ))(error)),
            _ => Ok(()),
        }
    }));
    let failed = stopped.await.into_iter().filter_map(Result::err);
    failed.map(Arc::new).collect()
}
