//! `UpdateContainerResources`: sets new limits of a container.

use orlop_cri_api::v1::{UpdateContainerResourcesRequest, UpdateContainerResourcesResponse};

use crate::docker::types::Resources;
use crate::error::{Error, Result};
use crate::find;
use crate::limits::{self, Extra, cgroup_of};
use crate::shim::Shim;

pub(crate) async fn call(
    shim: &Shim,
    request: UpdateContainerResourcesRequest,
) -> Result<UpdateContainerResourcesResponse> {
    let missing = || Error::invalid("linux", "is missing; there is nothing to update");
    let wanted = request.linux.ok_or_else(missing)?;
    let found = find::container(&shim.docker, &request.container_id).await?;
    if !matches!(
        found.state.status.as_str(),
        "created" | "running" | "paused"
    ) {
        let problem = format!(
            "container {} has exited; its resources cannot be updated",
            found.id
        );
        return Err(Error::Precondition(problem).into());
    }
    let hierarchies = shim.hierarchies.clone();
    let is_v2 = hierarchies
        .as_ref()
        .is_some_and(|hierarchies| hierarchies.is_v2());
    let extra = Extra::of(&wanted, is_v2)?;
    let resources = limits::of(&wanted);
    if resources != Resources::default() {
        let updated = shim.docker.update_container(&found.id, &resources).await;
        updated.map_err(Error::engine(format!(
            "updating the limits of container {}",
            found.id
        )))?;
        shim.stats.forget(&found.id);
    }
    if let Some(hierarchies) = hierarchies.filter(|_| !extra.is_empty()) {
        if !found.state.running {
            let problem = format!(
                "container {} is not running; limits of huge pages and cgroup v2 files can only \
                 be updated in a running container",
                found.id
            );
            return Err(Error::Precondition(problem).into());
        }
        let (pid, id) = (found.state.pid, found.id);
        let applied = orlop_pool::blocking(move || {
            cgroup_of(&hierarchies, pid, &id).map_or(Ok(()), |cgroup| extra.apply(&cgroup))
        });
        applied.await.map_err(|_| {
            Error::Internal("a task panicked while setting the limits of a container".to_owned())
        })??;
    }
    Ok(UpdateContainerResourcesResponse {})
}
