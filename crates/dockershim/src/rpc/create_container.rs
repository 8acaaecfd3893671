//! `CreateContainer`: makes a container in a pod; it does not run yet.

use orlop_cri::v1::{
    ContainerConfig, CreateContainerRequest, CreateContainerResponse, PodSandboxConfig,
};

use crate::create::{self, AroundContainer};
use crate::error::{Error, Result};
use crate::rpc::start_container;
use crate::shim::Shim;
use crate::{conflict, find, names};

/// Answers the call.
pub(crate) async fn call(
    shim: &Shim,
    request: CreateContainerRequest,
) -> Result<CreateContainerResponse> {
    let missing = |field: &str| Error::invalid(field, "is missing");
    let config = request.config.clone().ok_or_else(|| missing("config"))?;
    let pod = request
        .sandbox_config
        .clone()
        .ok_or_else(|| missing("sandbox_config"))?;
    let metadata = config
        .metadata
        .as_ref()
        .ok_or_else(|| missing("config.metadata"))?;
    if metadata.name.is_empty() {
        return Err(Error::invalid("config.metadata.name", "is empty").into());
    }
    let of_pod = pod
        .metadata
        .as_ref()
        .ok_or_else(|| missing("sandbox_config.metadata"))?;
    let name = names::of_container(of_pod, metadata);
    let sandbox = request.pod_sandbox_id.clone();
    let work = {
        let (shim, name) = (shim.clone(), name.clone());
        async move { Box::pin(create(&shim, &name, &sandbox, config, pod)).await }
    };
    let container_id = shim.new_containers.run(&name, request, work).await?;
    Ok(CreateContainerResponse { container_id })
}

async fn create(
    shim: &Shim,
    name: &str,
    sandbox: &str,
    config: ContainerConfig,
    pod: PodSandboxConfig,
) -> Result<String> {
    let (sandbox, runtime) = running_sandbox(shim, sandbox).await?;
    let info = shim.info().await?;
    let driver = shim.cgroup_driver().await?;
    let failed = || Error::engine(format!("creating the container {name}"));
    let api = shim.docker.api().await.map_err(failed())?;
    // Reads a profile and makes directories, as it may be.
    let (containers, oom_floor) = (shim.config.containers.clone(), shim.oom_floor);
    let cgroup_v2 = shim
        .hierarchies
        .as_ref()
        .is_some_and(|hierarchies| hierarchies.is_v2());
    let body = tokio::task::spawn_blocking(move || {
        let around = AroundContainer {
            config: &containers,
            info: &info,
            api,
            driver,
            cgroup_v2,
            oom_floor,
            sandbox: &sandbox,
            runtime: &runtime,
        };
        create::container(&config, &pod, &around)
    });
    let body = body
        .await
        .map_err(|_| Error::Internal("making a container broke".to_owned()))??;
    let created = conflict::create(shim, name, &body)
        .await
        .map_err(failed())?;
    for warning in created.warnings {
        tracing::debug!(container = created.id, warning, "the engine warns");
    }
    let made = start_container::made(&created.id, &body.config);
    shim.remembered.made(&created.id, made);
    Ok(created.id)
}

/// The id of a sandbox that runs, and the engine's runtime for what is in it.
async fn running_sandbox(shim: &Shim, id: &str) -> Result<(String, String)> {
    if let Some(runtime) = shim.remembered.runtime_of(id) {
        return Ok((id.to_owned(), runtime));
    }
    let found = find::sandbox(shim, id).await?;
    if !found.state.running {
        let problem = format!("pod sandbox {} does not run", found.id);
        return Err(Error::Precondition(problem).into());
    }
    Ok((found.id, found.host_config.runtime))
}
