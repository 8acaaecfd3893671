//! `CreateContainer`: creates a container in a pod without starting it.

use std::collections::BTreeMap;
use std::sync::Arc;

use orlop_cri_api::v1::{
    ContainerConfig, CreateContainerRequest, CreateContainerResponse, PodSandboxConfig,
};
use orlop_cri_server::timeline::{Early, Origin, Trace};
use orlop_image_store::ForeignImages;

use crate::create::{self, AroundContainer};
use crate::error::{Error, Result};
use crate::remembered::Sandbox;
use crate::rpc::start_container;
use crate::shim::Shim;
use crate::{conflict, find, labels, names, policy};

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
    let origin = Origin::current();
    let work = {
        let (shim, name) = (shim.clone(), name.clone());
        async move { Box::pin(traced(&shim, &name, &sandbox, config, pod, origin)).await }
    };
    let container_id = shim.new_containers.run_as(name, request, || work).await?;
    Ok(CreateContainerResponse { container_id })
}

async fn traced(
    shim: &Shim,
    name: &str,
    sandbox: &str,
    config: ContainerConfig,
    pod: PodSandboxConfig,
    origin: Origin,
) -> Result<String> {
    let mut early = Early::begin();
    let finding = running_sandbox(shim, sandbox);
    let (sandbox, found) = early.step("sandbox", finding).await?;
    let Sandbox { runtime, namespace } = found;
    let trace = shim.trace_of(&sandbox, pod.metadata.as_ref(), &runtime);
    let container = config.metadata.as_ref().map(|it| it.name.clone());
    let container = container.unwrap_or_default();
    let call = trace.begin_after(early, "CreateContainer", &container, origin);
    let within = Within {
        sandbox,
        namespace,
        runtime,
        container: &container,
        trace: &trace,
    };
    let created = create(shim, name, config, pod, within).await;
    call.end(&created);
    created
}

/// The context that a container is created in.
struct Within<'a> {
    sandbox: String,
    /// The pod's namespace, if the sandbox's name contains it.
    namespace: Option<String>,
    runtime: String,
    container: &'a str,
    trace: &'a Trace,
}

async fn create(
    shim: &Shim,
    name: &str,
    mut config: ContainerConfig,
    pod: PodSandboxConfig,
    within: Within<'_>,
) -> Result<String> {
    let Within {
        sandbox,
        namespace,
        runtime,
        container,
        trace,
    } = within;
    let info = shim.info.get().await?;
    let driver = shim.info.cgroup_driver().await?;
    let failed = || Error::engine(format!("creating the container {name}"));
    let api = shim.docker.api().await.map_err(failed())?;
    if let Some(policies) = &shim.policies {
        let namespace = namespace.or_else(|| Some(pod.metadata.clone()?.namespace));
        let namespace = namespace.unwrap_or_default();
        let judging = judge(shim, policies, &mut config, &namespace);
        trace.step("signatures", container, judging).await?;
    }
    let images = mounted_images(shim, &config).await;
    // May read a seccomp profile and create directories.
    let (containers, oom_floor) = (shim.config.containers.clone(), shim.oom_floor);
    let cgroup_v2 = shim
        .hierarchies
        .as_ref()
        .is_some_and(|hierarchies| hierarchies.is_v2());
    let configuring = orlop_pool::blocking(move || {
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
    let configuring = async {
        let body = configuring.await;
        body.map_err(|_| {
            Arc::new(Error::Internal(
                "a task panicked while preparing a container".to_owned(),
            ))
        })?
    };
    let mut body = trace.step("config", container, configuring).await?;
    if !images.is_empty()
        && let Ok(text) = serde_json::to_string(&images)
    {
        let labels = &mut body.config.labels;
        labels.insert(labels::MOUNTED_IMAGES.into(), text);
    }
    let creating = trace.step(
        "create",
        container,
        conflict::create(&shim.docker, name, &body),
    );
    let created = creating.await.map_err(failed())?;
    for warning in created.warnings {
        tracing::debug!(
            container = created.id,
            warning,
            "the engine reported a warning"
        );
    }
    let made = start_container::made(&created.id, name, &body.config);
    shim.remembered.made(&created.id, made);
    Ok(created.id)
}

/// Rejects images that the policy does not allow for pods of the namespace. Replaces the names of allowed images by
/// their ids.
async fn judge(
    shim: &Shim,
    policies: &ForeignImages,
    config: &mut ContainerConfig,
    namespace: &str,
) -> Result<()> {
    if let Some(asked) = &mut config.image {
        policy::admit(&shim.docker, policies, asked, namespace).await?;
    }
    policy::admit_mounts(&shim.docker, policies, config, namespace).await
}

/// Returns the ids of the images that a container mounts, by mount path. The engine will refuse to mount a missing
/// image.
async fn mounted_images(shim: &Shim, config: &ContainerConfig) -> BTreeMap<String, String> {
    let mut images = BTreeMap::new();
    for mount in &config.mounts {
        if let Some(image) = mount.image.as_ref().filter(|image| !image.image.is_empty())
            && let Ok(found) = shim.docker.image(&image.image).await
        {
            let path = mount.container_path.trim_end_matches('/');
            images.insert(path.to_owned(), found.id);
        }
    }
    images
}

/// Returns the id of a running sandbox and the known facts about it.
async fn running_sandbox(shim: &Shim, id: &str) -> Result<(String, Sandbox)> {
    if let Some(known) = shim.remembered.running_sandbox(id) {
        return Ok((id.to_owned(), known));
    }
    let found = find::sandbox(&shim.docker, id).await?;
    if !found.state.running {
        let problem = format!("pod sandbox {} is not running", found.id);
        return Err(Error::Precondition(problem).into());
    }
    let sandbox = Sandbox::of(&found);
    Ok((found.id, sandbox))
}
