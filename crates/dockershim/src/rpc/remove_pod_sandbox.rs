//! `RemovePodSandbox`: removes a pod with all its containers. Idempotent.

use orlop_cri_api::v1::{
    RemoveContainerRequest, RemovePodSandboxRequest, RemovePodSandboxResponse,
};

use crate::checkpoint::is_id;
use crate::docker::Force;
use crate::error::{Error, Result, gathered};
use crate::find;
use crate::rpc::remove_container;
use crate::shim::Shim;

pub(crate) async fn call(
    shim: &Shim,
    request: RemovePodSandboxRequest,
) -> Result<RemovePodSandboxResponse> {
    let asked = request.pod_sandbox_id;
    let (id, found) = match find::sandbox(&shim.docker, &asked).await {
        Ok(found) => (found.id.clone(), Some(found)),
        Err(error) if error.is_not_found() && is_id(&asked) => (asked, None),
        Err(error) if error.is_not_found() => return Ok(RemovePodSandboxResponse {}),
        Err(error) => return Err(error),
    };
    let mut errors = Vec::new();
    for one in find::containers_of(&shim.docker, &id).await? {
        let request = RemoveContainerRequest {
            container_id: one.id,
        };
        if let Err(error) = remove_container::call(shim, request).await {
            errors.push(error);
        }
    }
    // The network is already torn down if the sandbox was stopped; otherwise this is the last chance.
    let checkpoint = shim.checkpoints.read(&id).await;
    let was_running = found.as_ref().is_some_and(|found| found.state.running);
    if checkpoint.is_some() || was_running {
        let detached = shim
            .network
            .detach(&id, found.as_ref(), checkpoint.as_ref())
            .await;
        errors.extend(detached.err());
    }
    if found.is_some() {
        match shim.docker.remove_container(&id, Force::Yes).await {
            Ok(()) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) => {
                errors.push(Error::engine(format!("removing pod sandbox {id}"))(error).into());
            }
        }
    }
    // If a step failed, the checkpoint stays as its record.
    gathered(errors)?;
    shim.checkpoints.remove(&id).await?;
    shim.network.forget(&id);
    shim.stats.forget(&id);
    Ok(RemovePodSandboxResponse {})
}
