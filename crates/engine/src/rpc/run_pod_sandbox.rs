//! `RunPodSandbox`: from nothing to a pod that is ready for containers.

use std::path::Path;
use std::sync::Arc;

use orlop_cri::v1::{
    ContainerEventType, NamespaceMode, PodSandboxConfig, RunPodSandboxRequest,
    RunPodSandboxResponse,
};

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::ids::PodId;
use crate::names::PodName;
use crate::pod::{Event, Phase, Pod};
use crate::timeline::{Origin, Trace};
use crate::{blocking, exits, nri, sandbox, teardown};

/// Answers the call.
pub async fn call(engine: &Engine, request: RunPodSandboxRequest) -> Result<RunPodSandboxResponse> {
    let config = request
        .config
        .ok_or_else(|| Error::invalid("config", "is missing"))?;
    let name = PodName::of(&config)?;
    check(&config)?;
    engine.runtimes.handler(&request.runtime_handler)?;
    let make = {
        let (engine, name) = (engine.clone(), name.clone());
        let asked = Asked {
            config,
            handler: request.runtime_handler,
            origin: Origin::current(),
        };
        || async move { find_or_make(&engine, &name, asked).await }
    };
    let id = engine.sandboxes.run(name, make).await?;
    Ok(RunPodSandboxResponse {
        pod_sandbox_id: id.to_string(),
    })
}

/// A pod that is asked for.
struct Asked {
    config: PodSandboxConfig,
    handler: String,
    origin: Origin,
}

/// A client that missed our answer asks again: it gets the pod that it already has.
async fn find_or_make(engine: &Engine, name: &PodName, asked: Asked) -> Result<PodId> {
    let Some(pod) = engine.pod_named(name) else {
        return make(engine, asked).await;
    };
    match pod.phase() {
        // An earlier removal failed half-way.
        Phase::Removing => {
            teardown::remove(engine, &pod).await?;
            return make(engine, asked).await;
        }
        // Half made by an earlier run of the daemon, and not undone yet.
        Phase::Creating => {
            teardown::undo(engine, &pod).await?;
            return make(engine, asked).await;
        }
        Phase::Ready | Phase::NotReady => {}
    }
    let hint = "remove it, or ask with another metadata.attempt";
    let id = &pod.id;
    if pod.phase() != Phase::Ready {
        return Err(
            Error::Exists(format!("pod sandbox {id} is {name}, but stopped; {hint}")).into(),
        );
    }
    if pod.config != asked.config || pod.handler != asked.handler {
        let problem = format!("pod sandbox {id} is {name} with another configuration; {hint}");
        return Err(Error::Exists(problem).into());
    }
    Ok(id.clone())
}

async fn make(engine: &Engine, asked: Asked) -> Result<PodId> {
    let Asked {
        config,
        handler,
        origin,
    } = asked;
    let (pods, runs) = (engine.pods_dir(), engine.runs_dir());
    let runtime = engine.runtimes.handler(&handler)?.name.clone();
    let pod = blocking(move || Pod::create(&pods, &runs, config, handler, runtime)).await?;
    let pod = Arc::new(pod);
    engine.pods.insert(Arc::clone(&pod));
    let trace = engine.trace_of(&pod);
    let call = trace.begin("RunPodSandbox", "", origin);
    let built = match sandbox::build(engine, &pod, &trace).await {
        Ok(()) => show(engine, &pod, &trace).await,
        Err(error) => Err(error),
    };
    call.end(&built);
    if let Err(error) = built {
        undo(engine, &pod).await;
        return Err(error);
    }
    engine.tell_pod(&pod, ContainerEventType::ContainerCreatedEvent);
    engine.tell_pod(&pod, ContainerEventType::ContainerStartedEvent);
    // Ended before the pod could be said to be down.
    exits::init_lost_early(engine, &pod).await;
    Ok(pod.id.clone())
}

/// Lets clients see a complete pod, unless plugins refuse it.
async fn show(engine: &Engine, pod: &Arc<Pod>, trace: &Trace) -> Result<()> {
    let _hold = engine.nri.hold().await;
    nri::pod_running(engine, pod).await?;
    trace.step("record", "", pod.record(Event::Ready)).await?;
    // A keeper that has died meanwhile was noticed when there was no ready pod to end yet.
    pod.keeper().map(drop)
}

/// Leaves nothing of a pod that could not be made. What can't be undone now stays visible
/// as a stopped pod, so that the client's stop and remove can finish it.
async fn undo(engine: &Engine, pod: &Arc<Pod>) {
    let undone = match teardown::stop(engine, pod).await {
        Ok(()) => teardown::erase(engine, pod).await,
        Err(error) => Err(error),
    };
    if let Err(error) = undone {
        tracing::error!(pod = %pod.id, %error, "could not undo a failed pod; it stays as stopped");
        if let Err(error) = pod.record(Event::NotReady).await {
            tracing::error!(pod = %pod.id, %error, "could not write that down");
        }
    }
}

/// Refuses what could not work, before anything is made.
fn check(config: &PodSandboxConfig) -> Result<()> {
    let directory = Path::new(&config.log_directory);
    if !config.log_directory.is_empty()
        && (!directory.is_absolute() || has_parent_component(directory))
    {
        let problem = format!("{directory:?} must be an absolute path without \"..\"");
        return Err(Error::invalid("config.log_directory", problem).into());
    }
    let linux = config.linux.clone().unwrap_or_default();
    let parent = Path::new(&linux.cgroup_parent);
    if has_parent_component(parent) {
        let problem = format!("{parent:?} must not contain \"..\"");
        return Err(Error::invalid("config.linux.cgroup_parent", problem).into());
    }
    let namespaces = linux
        .security_context
        .and_then(|context| context.namespace_options)
        .unwrap_or_default();
    for (field, mode) in [("network", namespaces.network()), ("ipc", namespaces.ipc())] {
        if !matches!(mode, NamespaceMode::Pod | NamespaceMode::Node) {
            let field = format!("config.linux.security_context.namespace_options.{field}");
            return Err(Error::invalid(field, "must be POD or NODE for a pod").into());
        }
    }
    if namespaces.pid() == NamespaceMode::Target {
        let field = "config.linux.security_context.namespace_options.pid";
        return Err(Error::invalid(field, "TARGET is for containers only").into());
    }
    Ok(())
}

fn has_parent_component(path: &Path) -> bool {
    path.components()
        .any(|part| part == std::path::Component::ParentDir)
}
