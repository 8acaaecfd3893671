//! `RunPodSandbox`: makes and starts the process that holds a pod's namespaces, and the pod's
//! network.
//!
//! What cannot be finished is stopped and left: the kubelet sees a sandbox that is not ready, and
//! stops and removes it.

use std::time::Duration;

use orlop_cri::v1::{PodSandboxConfig, RunPodSandboxRequest, RunPodSandboxResponse};

use crate::checkpoint::Checkpoint;
use crate::create::{self, AroundSandbox};
use crate::error::{Error, Result};
use crate::shim::Shim;
use crate::{conflict, find, names, network, pause, resolv};

/// How long the pause process gets to end.
const GRACE: Duration = Duration::from_secs(10);

/// Answers the call.
pub(crate) async fn call(
    shim: &Shim,
    request: RunPodSandboxRequest,
) -> Result<RunPodSandboxResponse> {
    let pod = request.config.clone();
    let pod = pod.ok_or_else(|| Error::invalid("config", "is missing"))?;
    let metadata = pod.metadata.as_ref();
    let metadata = metadata.ok_or_else(|| Error::invalid("config.metadata", "is missing"))?;
    let name = names::of_sandbox(metadata);
    let handler = request.runtime_handler.clone();
    let work = {
        let (shim, name) = (shim.clone(), name.clone());
        async move { Box::pin(run(&shim, &name, pod, &handler)).await }
    };
    let pod_sandbox_id = shim.new_sandboxes.run(&name, request, work).await?;
    Ok(RunPodSandboxResponse { pod_sandbox_id })
}

async fn run(shim: &Shim, name: &str, pod: PodSandboxConfig, handler: &str) -> Result<String> {
    let id = create(shim, name, &pod, handler).await?;
    let checkpoint = Checkpoint::of(&pod);
    // Written before there is a network that it would be needed for.
    let written = shim.checkpoints.write(&id, &checkpoint);
    if let Err(error) = written {
        let doing = format!("writing the checkpoint of pod sandbox {id}");
        undo(shim, &id).await;
        return Err(Error::io(doing)(error).into());
    }
    match begin(shim, &id, &pod).await {
        Ok(()) => Ok(id),
        Err(error) => {
            stop(shim, &id, &checkpoint).await;
            Err(error)
        }
    }
}

async fn create(shim: &Shim, name: &str, pod: &PodSandboxConfig, handler: &str) -> Result<String> {
    let info = shim.info().await?;
    let around = AroundSandbox {
        config: &shim.config,
        info: &info,
        driver: shim.cgroup_driver().await?,
        oom_floor: shim.oom_floor,
    };
    let failed = || Error::engine(format!("creating the sandbox {name}"));
    let image = pause::image(shim).await?;
    let body = create::sandbox(pod, handler, &image, &around)?;
    let created = match conflict::create(shim, name, &body).await {
        // Somebody removed the image since it was looked for.
        Err(error) if error.is_not_found() => {
            shim.pause.set(None);
            let image = pause::image(shim).await?;
            let body = create::sandbox(pod, handler, &image, &around)?;
            conflict::create(shim, name, &body).await
        }
        done => done,
    };
    let created = created.map_err(failed())?;
    for warning in created.warnings {
        tracing::debug!(sandbox = created.id, warning, "the engine warns");
    }
    Ok(created.id)
}

async fn begin(shim: &Shim, id: &str, pod: &PodSandboxConfig) -> Result<()> {
    let started = shim.docker.start_container(id).await;
    started.map_err(Error::engine(format!("starting pod sandbox {id}")))?;
    let found = find::sandbox(shim, id).await?;
    if !found.state.running {
        let problem = format!(
            "the process of pod sandbox {id} ended at once (exit code {}): is {} an image whose \
             program waits?",
            found.state.exit_code, found.config.image
        );
        return Err(Error::Precondition(problem).into());
    }
    resolv::write(&found.resolv_conf_path, pod.dns_config.as_ref()).await?;
    network::attach(shim, &found, pod).await?;
    shim.remembered.sandbox_runs(id, &found.host_config.runtime);
    Ok(())
}

async fn stop(shim: &Shim, id: &str, checkpoint: &Checkpoint) {
    let found = find::sandbox(shim, id).await.ok();
    if let Err(error) = network::detach(shim, id, found.as_ref(), Some(checkpoint)).await {
        tracing::warn!(sandbox = id, %error, "undoing the network of a sandbox that failed");
    }
    if let Err(error) = shim.docker.stop_container(id, GRACE).await {
        tracing::warn!(sandbox = id, %error, "stopping a sandbox that failed");
    }
}

async fn undo(shim: &Shim, id: &str) {
    if let Err(error) = shim
        .docker
        .remove_container(id, crate::docker::Force::Yes)
        .await
    {
        tracing::warn!(sandbox = id, %error, "removing a sandbox that failed");
    }
}
