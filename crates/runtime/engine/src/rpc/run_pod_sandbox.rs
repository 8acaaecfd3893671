//! `RunPodSandbox`: creates a pod that is ready for containers.

use std::sync::Arc;

use orlop_cri_api::v1::{ContainerEventType, RunPodSandboxRequest, RunPodSandboxResponse};

use crate::ask::PodAsk;
use crate::engine::Engine;
use crate::error::{Error, Result, chain};
use crate::node::Node;
use crate::pod::{keeper_events, sandbox, shared, teardown};
use crate::record::ids::PodId;
use crate::record::pod::{Event, Phase, Pod};
use crate::timeline::{Origin, Trace};
use crate::{blocking, nri};

/// Handles the `RunPodSandbox` call.
pub async fn call(
    Engine(node): &Engine,
    request: RunPodSandboxRequest,
) -> Result<RunPodSandboxResponse> {
    run(node, request).await
}

/// Creates a pod, or returns the existing one.
pub async fn run(node: &Arc<Node>, request: RunPodSandboxRequest) -> Result<RunPodSandboxResponse> {
    let asked = Box::new(PodAsk::read(node, request)?);
    let name = asked.name.clone();
    let make = {
        let (node, origin) = (Arc::clone(node), Origin::current());
        move || async move { find_or_make(&node, asked, origin).await }
    };
    let id = node.sandboxes.run(name, make).await?;
    Ok(RunPodSandboxResponse {
        pod_sandbox_id: id.to_string(),
    })
}

/// Creates a pod, or returns the existing one to a client that missed the answer and repeats the request.
async fn find_or_make(node: &Arc<Node>, asked: Box<PodAsk>, origin: Origin) -> Result<PodId> {
    let PodAsk { name, record, .. } = &*asked;
    let Some(pod) = node.pods.named(name) else {
        return make(node, asked, origin).await;
    };
    match pod.phase() {
        // An earlier removal failed halfway.
        Phase::Removing => {
            teardown::remove(node, &pod).await?;
            return make(node, asked, origin).await;
        }
        // Half created by an earlier run of the daemon, and not undone yet.
        Phase::Creating => {
            teardown::undo(node, &pod).await?;
            return make(node, asked, origin).await;
        }
        Phase::Ready | Phase::NotReady => {}
    }
    let hint = "remove it or use another metadata.attempt";
    let id = &pod.id;
    if pod.phase() != Phase::Ready {
        return Err(Error::Exists(format!(
            "the name {name} is already used by pod sandbox {id}, which is stopped; {hint}"
        ))
        .into());
    }
    if pod.config != record.config || pod.handler != record.handler {
        let problem = format!(
            "the name {name} is already used by pod sandbox {id} with a different configuration; \
             {hint}"
        );
        return Err(Error::Exists(problem).into());
    }
    Ok(id.clone())
}

async fn make(node: &Arc<Node>, asked: Box<PodAsk>, origin: Origin) -> Result<PodId> {
    let PodAsk { record, parts, .. } = *asked;
    let (pods, runs) = (node.paths.pods(), node.paths.runs());
    let metadata = record.config.metadata.clone().unwrap_or_default();
    let at = node.pods.creation_time(&metadata);
    let create = blocking(move || {
        let asked = (record.config, record.handler, record.runtime);
        Pod::create(&pods, &runs, record.id, asked, at)
    });
    let (net, pod) = tokio::join!(sandbox::net_ahead(node, &parts), create);
    let pod = Arc::new(pod?);
    let has_net = matches!(net, Ok(Some(_)));
    node.pods.insert(Arc::clone(&pod));
    let trace = node.trace_of(&pod);
    let call = trace.begin("RunPodSandbox", "", origin);
    let built = match sandbox::build(node, &pod, parts, net, &trace).await {
        Ok(()) => show(node, &pod, &trace).await,
        Err(error) => Err(error),
    };
    call.end(&built);
    if let Err(error) = built {
        undo(node, &pod).await;
        return Err(error);
    }
    node.tell_pod(&pod, ContainerEventType::ContainerCreatedEvent);
    node.tell_pod(&pod, ContainerEventType::ContainerStartedEvent);
    if has_net {
        sandbox::make_spare_net(node);
    }
    // The namespace's init may have exited before the pod was ready.
    keeper_events::init_lost_early(node, &pod).await;
    Ok(pod.id.clone())
}

/// Makes a complete pod visible to clients, unless plugins reject it.
async fn show(node: &Node, pod: &Arc<Pod>, trace: &Trace) -> Result<()> {
    let _hold = node.nri.hold().await;
    nri::pod_running(node, pod).await?;
    trace.step("record", "", pod.record(Event::Ready)).await?;
    // A sandbox or keeper that exited before did not yet mark the pod as not ready.
    shared::check(pod)?;
    pod.keeper().map(drop)
}

/// Removes a pod whose creation failed. If that fails, too, the pod becomes visible as stopped, so that the client can
/// stop and remove it.
async fn undo(node: &Node, pod: &Arc<Pod>) {
    let undone = match teardown::stop(node, pod).await {
        Ok(()) => teardown::erase(node, pod).await,
        Err(error) => Err(error),
    };
    if let Err(error) = undone {
        let why = chain(&*error);
        tracing::error!(pod = %pod.id, why, "cannot remove a failed pod; it stays as a stopped pod");
        if let Err(error) = pod.record(Event::NotReady).await {
            tracing::error!(pod = %pod.id, %error, "cannot record that a failed pod is stopped");
        }
    }
}
