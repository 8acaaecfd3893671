//! `StartContainer`: starts the process of a created container.

use std::sync::Arc;

use orlop_cri_api::v1::{StartContainerRequest, StartContainerResponse};

use crate::container::process;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::node::{Node, Work};
use crate::nri;
use crate::record::container::{Container, Phase};
use crate::record::pod;
use crate::timeline::Origin;

/// Handles the `StartContainer` call.
pub async fn call(
    Engine(node): &Engine,
    request: StartContainerRequest,
) -> Result<StartContainerResponse> {
    let container = node.containers.find(&request.container_id)?;
    let work = (Work::StartContainer, container.id.to_string());
    let node_too = Arc::clone(node);
    let origin = Origin::current();
    let start = || async move { start(&node_too, &container, origin).await };
    node.works.run(work, start).await?;
    Ok(StartContainerResponse {})
}

/// Starts a container. Succeeds if it already runs, for a client that missed the answer and repeats the request.
async fn start(node: &Arc<Node>, container: &Arc<Container>, origin: Origin) -> Result<()> {
    // The pod is not stopped meanwhile.
    let _pod = container.pod.turn.read().await;
    let _hold = node.nri.hold().await;
    // Held so that plugins learn of the exit after the start.
    let mut told = container.told.lock().await;
    let due = container.phase() == Phase::Created && container.pod.phase() == pod::Phase::Ready;
    let asked = if due {
        nri::starting(node, container).await
    } else {
        Ok(())
    };
    let started = start_in_turn(node, container, origin, asked).await;
    match &started {
        Ok(()) if due => nri::post_started(node, container).await,
        Err(_) if container.phase() == Phase::Exited => {
            nri::stopped_while_told(node, container, &mut told).await;
        }
        _ => {}
    }
    started
}

async fn start_in_turn(
    node: &Arc<Node>,
    container: &Arc<Container>,
    origin: Origin,
    asked: Result<()>,
) -> Result<()> {
    let _turn = container.turn.lock().await;
    let id = &container.id;
    match container.phase() {
        Phase::Created if container.pod.phase() != pod::Phase::Ready => {
            let problem =
                format!("the pod of container {id} is not ready; it cannot start containers");
            Err(Error::Precondition(problem).into())
        }
        Phase::Created => {
            let trace = node.trace_of(&container.pod);
            let call = trace.begin("StartContainer", &container.metadata().name, origin);
            let started = match asked {
                Ok(()) => process::start(node, container, &trace).await,
                Err(error) => {
                    process::could_not_start(node, container, &error).await;
                    Err(error)
                }
            };
            call.end(&started);
            started
        }
        Phase::Running => Ok(()),
        Phase::Exited => {
            let problem = format!("container {id} has already exited; create a new one");
            Err(Error::Precondition(problem).into())
        }
        Phase::Creating | Phase::Removing => Err(Error::NotFound {
            what: "container",
            id: id.to_string(),
        }
        .into()),
    }
}
