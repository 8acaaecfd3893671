//! `StartContainer`: from a complete container to a running process.

use std::sync::Arc;

use orlop_cri::v1::{StartContainerRequest, StartContainerResponse};

use crate::container::{Container, Phase};
use crate::engine::{Engine, Work};
use crate::error::{Error, Result};
use crate::timeline::Origin;
use crate::{nri, pod, process};

/// Answers the call.
pub async fn call(
    engine: &Engine,
    request: StartContainerRequest,
) -> Result<StartContainerResponse> {
    let container = engine.containers.find(&request.container_id)?;
    let work = (Work::StartContainer, container.id.to_string());
    let engine_too = engine.clone();
    let origin = Origin::current();
    let start = || async move { start(&engine_too, &container, origin).await };
    engine.works.run(work, start).await?;
    Ok(StartContainerResponse {})
}

/// A client that missed our answer asks again: a container that runs was started.
async fn start(engine: &Engine, container: &Arc<Container>, origin: Origin) -> Result<()> {
    // The pod is not stopped meanwhile.
    let _pod = container.pod.turn.read().await;
    let _hold = engine.nri.hold().await;
    // Plugins hear of its end after its start.
    let mut told = container.told.lock().await;
    let due = container.phase() == Phase::Created && container.pod.phase() == pod::Phase::Ready;
    let asked = if due {
        nri::starting(engine, container).await
    } else {
        Ok(())
    };
    let started = start_in_turn(engine, container, origin, asked).await;
    match &started {
        Ok(()) if due => nri::post_started(engine, container).await,
        Err(_) if container.phase() == Phase::Exited => {
            nri::stopped_while_told(engine, container, &mut told).await;
        }
        _ => {}
    }
    started
}

async fn start_in_turn(
    engine: &Engine,
    container: &Arc<Container>,
    origin: Origin,
    asked: Result<()>,
) -> Result<()> {
    let _turn = container.turn.lock().await;
    let id = &container.id;
    match container.phase() {
        Phase::Created if container.pod.phase() != pod::Phase::Ready => {
            let problem = format!("the pod of container {id} is not ready; it starts nothing");
            Err(Error::Precondition(problem).into())
        }
        Phase::Created => {
            let trace = engine.trace_of(&container.pod);
            let call = trace.begin("StartContainer", &container.metadata().name, origin);
            let started = match asked {
                Ok(()) => process::start(engine, container, &trace).await,
                Err(error) => {
                    process::could_not_start(engine, container, &error).await;
                    Err(error)
                }
            };
            call.end(&started);
            started
        }
        Phase::Running => Ok(()),
        Phase::Exited => {
            let problem = format!("container {id} has already run and ended; create a new one");
            Err(Error::Precondition(problem).into())
        }
        Phase::Creating | Phase::Removing => Err(Error::NotFound {
            what: "container",
            id: id.to_string(),
        }
        .into()),
    }
}
