//! `StartContainer`: from a complete container to a running process.

use std::sync::Arc;

use orlop_cri::v1::{StartContainerRequest, StartContainerResponse};

use crate::container::{Container, Phase};
use crate::engine::{Engine, Work};
use crate::error::{Error, Result};
use crate::{pod, process};

/// Answers the call.
pub async fn call(
    engine: &Engine,
    request: StartContainerRequest,
) -> Result<StartContainerResponse> {
    let container = engine.containers.find(&request.container_id)?;
    let work = (Work::StartContainer, container.id.to_string());
    let engine_too = engine.clone();
    engine
        .works
        .run(work, || async move { start(&engine_too, &container).await })
        .await?;
    Ok(StartContainerResponse {})
}

/// A client that missed our answer asks again: a container that runs was started.
async fn start(engine: &Engine, container: &Arc<Container>) -> Result<()> {
    // The pod is not stopped meanwhile.
    let _pod = container.pod.turn.read().await;
    let _turn = container.turn.lock().await;
    let id = &container.id;
    match container.phase() {
        Phase::Created if container.pod.phase() != pod::Phase::Ready => {
            let problem = format!("the pod of container {id} is not ready; it starts nothing");
            Err(Error::Precondition(problem).into())
        }
        Phase::Created => process::start(engine, container).await,
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
