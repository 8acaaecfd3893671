//! `RunPodSandbox`: creates and starts the pause process, which holds a pod's namespaces, and sets up the pod's
//! network.
//!
//! If a step fails, the sandbox is stopped and left in place. The kubelet sees a sandbox that is not ready, and stops
//! and removes it.

use std::time::Duration;

use orlop_cri_api::v1::{PodSandboxConfig, RunPodSandboxRequest, RunPodSandboxResponse};
use orlop_cri_server::timeline::{Early, Origin, Trace};

use crate::checkpoint::Checkpoint;
use crate::create::{self, AroundSandbox};
use crate::error::{Error, Result};
use crate::remembered::Sandbox;
use crate::shim::Shim;
use crate::{conflict, find, names, resolv};

/// How long the pause process may take to exit.
const GRACE: Duration = Duration::from_secs(10);

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
    let origin = Origin::current();
    let work = {
        let (shim, name) = (shim.clone(), name.clone());
        async move { Box::pin(run(&shim, &name, pod, &handler, origin)).await }
    };
    let pod_sandbox_id = shim.new_sandboxes.run_as(name, request, || work).await?;
    Ok(RunPodSandboxResponse { pod_sandbox_id })
}

async fn run(
    shim: &Shim,
    name: &str,
    pod: PodSandboxConfig,
    handler: &str,
    origin: Origin,
) -> Result<String> {
    let mut early = Early::begin();
    let created = create(shim, name, &pod, handler, &mut early).await;
    // A sandbox that could not be created has no id, but is looked up nevertheless.
    let (id, runtime) = match &created {
        Ok(created) => (created.id.as_str(), created.runtime.as_str()),
        Err(_) => (name, handler),
    };
    let trace = shim.trace_of(id, pod.metadata.as_ref(), runtime);
    let call = trace.begin_after(early, "RunPodSandbox", "", origin);
    let run = match created {
        Ok(created) => finish(shim, created.id, &pod, &trace).await,
        Err(error) => Err(error),
    };
    call.end(&run);
    run
}

/// Completes a sandbox that the engine has created.
async fn finish(shim: &Shim, id: String, pod: &PodSandboxConfig, trace: &Trace) -> Result<String> {
    let checkpoint = Checkpoint::of(pod);
    // The checkpoint is written before there is a network that needs it.
    let writing = shim.checkpoints.write(&id, &checkpoint);
    let (written, started) = tokio::join!(
        trace.step("checkpoint", "", writing),
        trace.step("start", "", shim.docker.start_container(&id)),
    );
    if let Err(error) = written {
        undo(shim, &id).await;
        return Err(error);
    }
    let begun = match started {
        Ok(()) => begin(shim, &id, pod, trace).await,
        Err(error) => Err(Error::engine(format!("starting pod sandbox {id}"))(error).into()),
    };
    match begun {
        Ok(()) => Ok(id),
        Err(error) => {
            stop(shim, &id, &checkpoint).await;
            Err(error)
        }
    }
}

/// A sandbox that the engine has created.
struct Made {
    id: String,
    runtime: String,
}

async fn create(
    shim: &Shim,
    name: &str,
    pod: &PodSandboxConfig,
    handler: &str,
    early: &mut Early,
) -> Result<Made> {
    let info = early.step("info", shim.info.get()).await?;
    let around = AroundSandbox {
        config: &shim.config,
        info: &info,
        driver: shim.info.cgroup_driver().await?,
        oom_floor: shim.oom_floor,
    };
    let failed = || Error::engine(format!("creating the sandbox {name}"));
    let image = early.step("image", shim.pause.image()).await?;
    let body = image.sandbox(create::sandbox(pod, handler, &image.name, &around)?);
    let runtime = match body.host_config.runtime.as_str() {
        "" => info.default_runtime.clone(),
        runtime => runtime.to_owned(),
    };
    let creating = early.step("create", conflict::create(&shim.docker, name, &body));
    let created = match creating.await {
        // The image was removed after the lookup.
        Err(error) if error.is_not_found() => {
            shim.pause.is_gone();
            let image = early.step("image", shim.pause.image()).await?;
            let body = image.sandbox(create::sandbox(pod, handler, &image.name, &around)?);
            let creating = early.step("create", conflict::create(&shim.docker, name, &body));
            creating.await
        }
        done => done,
    };
    let created = created.map_err(failed())?;
    for warning in created.warnings {
        tracing::debug!(
            sandbox = created.id,
            warning,
            "the engine reported a warning"
        );
    }
    Ok(Made {
        id: created.id,
        runtime,
    })
}

async fn begin(shim: &Shim, id: &str, pod: &PodSandboxConfig, trace: &Trace) -> Result<()> {
    let found = trace
        .step("inspect", "", find::sandbox(&shim.docker, id))
        .await?;
    if !found.state.running {
        let problem = format!(
            "the process of pod sandbox {id} exited immediately (exit code {}); check that the \
             program of the pause image {} keeps running",
            found.state.exit_code, found.config.image
        );
        return Err(Error::Precondition(problem).into());
    }
    resolv::write(&found.resolv_conf_path, pod.dns_config.as_ref()).await?;
    let attaching = shim.network.attach(&found, pod);
    trace.step("network", "", attaching).await?;
    shim.remembered.sandbox_runs(id, Sandbox::of(&found));
    Ok(())
}

async fn stop(shim: &Shim, id: &str, checkpoint: &Checkpoint) {
    let found = find::sandbox(&shim.docker, id).await.ok();
    if let Err(error) = shim
        .network
        .detach(id, found.as_ref(), Some(checkpoint))
        .await
    {
        tracing::warn!(sandbox = id, %error, "cannot release the network of a failed sandbox");
    }
    if let Err(error) = shim.docker.stop_container(id, GRACE).await {
        tracing::warn!(sandbox = id, %error, "cannot stop a failed sandbox");
    }
}

async fn undo(shim: &Shim, id: &str) {
    if let Err(error) = shim
        .docker
        .remove_container(id, crate::docker::Force::Yes)
        .await
    {
        tracing::warn!(sandbox = id, %error, "cannot remove a failed sandbox");
    }
}
