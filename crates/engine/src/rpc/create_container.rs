//! `CreateContainer`: everything a container needs, on disk and checked, but no process yet.

use std::path::{Component, Path};
use std::sync::Arc;

use orlop_cri::v1::{
    ContainerConfig, ContainerEventType, CreateContainerRequest, CreateContainerResponse,
};

use crate::container::{self, Container, Event, ImageFacts};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::ids::ContainerId;
use crate::names::ContainerName;
use crate::pod::{Phase, Pod};
use crate::timeline::{Origin, Trace};
use crate::{blocking, bundle, nri, teardown};

/// More environment variables than any program looks at.
const MAX_ENVS: usize = 100_000;

/// Answers the call.
pub async fn call(
    engine: &Engine,
    request: CreateContainerRequest,
) -> Result<CreateContainerResponse> {
    let pod = engine.pods.find(&request.pod_sandbox_id)?;
    let config = request
        .config
        .ok_or_else(|| Error::invalid("config", "is missing"))?;
    let name = ContainerName::of(&pod.id, &config)?;
    check(&config)?;
    let make = {
        let (engine, name) = (engine.clone(), name.clone());
        let origin = Origin::current();
        move || async move { find_or_make(&engine, &pod, &name, config, origin).await }
    };
    let id = engine.creations.run(name, make).await?;
    Ok(CreateContainerResponse {
        container_id: id.to_string(),
    })
}

/// A client that missed our answer asks again: it gets the container that it already has.
async fn find_or_make(
    engine: &Engine,
    pod: &Arc<Pod>,
    name: &ContainerName,
    config: ContainerConfig,
    origin: Origin,
) -> Result<ContainerId> {
    // No stop of the pod until this is finished.
    let _turn = pod.turn.read().await;
    if pod.phase() != Phase::Ready {
        let problem = format!(
            "pod sandbox {} is not ready; it takes no containers",
            pod.id
        );
        return Err(Error::Precondition(problem).into());
    }
    let Some(container) = engine.container_named(name) else {
        return make_traced(engine, pod, config, origin).await;
    };
    match container.phase() {
        container::Phase::Created if container.config == config => {
            return Ok(container.id.clone());
        }
        // Half made by an earlier run of the daemon, and not undone yet.
        container::Phase::Creating => {
            teardown::undo_container(engine, &container).await?;
            return make_traced(engine, pod, config, origin).await;
        }
        _ => {}
    }
    let id = &container.id;
    Err(Error::Exists(format!(
        "container {id} is {name}, already used or with another configuration; remove it, or \
         ask with another metadata.attempt"
    ))
    .into())
}

async fn make_traced(
    engine: &Engine,
    pod: &Arc<Pod>,
    config: ContainerConfig,
    origin: Origin,
) -> Result<ContainerId> {
    let name = config.metadata.as_ref().map(|it| it.name.clone());
    let trace = engine.traces.of_pod(pod);
    let call = trace.begin("CreateContainer", &name.unwrap_or_default(), origin);
    let made = make(engine, pod, config, &trace).await;
    call.end(&made);
    made
}

async fn make(
    engine: &Engine,
    pod: &Arc<Pod>,
    config: ContainerConfig,
    trace: &Trace,
) -> Result<ContainerId> {
    let image = engine.image_for("config.image", config.image.as_ref())?;
    let facts = ImageFacts {
        id: image.id.to_string(),
        reference: image
            .repo_digests
            .first()
            .cloned()
            .unwrap_or_else(|| image.id.to_string()),
        name: name_for_people(&config, &image),
    };
    let pod_too = Arc::clone(pod);
    let name = config.metadata.clone().unwrap_or_default().name;
    let create = blocking(move || Container::create(&pod_too, config, facts));
    let container = Arc::new(trace.step("record", &name, create).await?);
    engine.containers.insert(Arc::clone(&container));
    match complete(engine, &container, &image, trace).await {
        Ok(()) => {
            engine.tell_container(&container, ContainerEventType::ContainerCreatedEvent);
            nri::post_created(engine, &container).await;
            Ok(container.id.clone())
        }
        Err(error) => {
            if let Err(error) = teardown::erase_container(engine, &container).await {
                // Not visible to clients; the pod's removal or the next start erases it.
                tracing::error!(container = %container.id, %error, "undoing a failed container");
            }
            Err(error)
        }
    }
}

/// Makes all that a container needs, and lets clients see it.
async fn complete(
    engine: &Engine,
    container: &Arc<Container>,
    image: &orlop_image::Image,
    trace: &Trace,
) -> Result<()> {
    let _hold = engine.nri.hold().await;
    let effective = bundle::build(engine, container, image, trace).await?;
    let recorded = container.record(Event::Ready { effective }).await;
    if recorded.is_err() {
        nri::undone(engine, container).await;
    }
    recorded
}

/// Requests often carry only a digest; people know images by their tags.
fn name_for_people(config: &ContainerConfig, image: &orlop_image::Image) -> String {
    let asked = config.image.clone().unwrap_or_default();
    if !asked.user_specified_image.is_empty() {
        return asked.user_specified_image;
    }
    image.repo_tags.first().cloned().unwrap_or(asked.image)
}

/// Refuses what could not work, before anything is made. What concerns the OCI spec is
/// checked where the spec is made.
fn check(config: &ContainerConfig) -> Result<()> {
    if config
        .image
        .as_ref()
        .is_none_or(|image| image.image.is_empty())
    {
        return Err(Error::invalid("config.image.image", "is empty").into());
    }
    let log_path = Path::new(&config.log_path);
    if !log_path
        .components()
        .all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
    {
        let problem = format!("{log_path:?} must lie below the pod's log directory");
        return Err(Error::invalid("config.log_path", problem).into());
    }
    if config.envs.len() > MAX_ENVS {
        let problem = format!(
            "{} variables; at most {MAX_ENVS} are allowed",
            config.envs.len()
        );
        return Err(Error::invalid("config.envs", problem).into());
    }
    Ok(())
}
