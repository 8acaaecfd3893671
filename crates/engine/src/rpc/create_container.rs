//! `CreateContainer`: everything a container needs, on disk and checked, but no process yet.

use std::path::{Component, Path};
use std::sync::Arc;

use orlop_cri::v1::{
    ContainerConfig, ContainerEventType, CreateContainerRequest, CreateContainerResponse,
};
use orlop_launch::criu;

use crate::checkpoint::capture;
use crate::checkpoint::go_on::{self, Match};
use crate::checkpoint::source::{self, Facts, Source};
use crate::container::{self, Container, Event, GoesOn, ImageFacts};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::ids::ContainerId;
use crate::names::ContainerName;
use crate::pod::{Phase, Pod};
use crate::timeline::{Origin, Trace};
use crate::{blocking, bundle, images, nri, teardown};

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
    let id = create(engine, pod, config, None).await?;
    Ok(CreateContainerResponse {
        container_id: id.to_string(),
    })
}

/// Makes a container, from a checkpoint if one is given or if its image is one.
pub async fn create(
    engine: &Engine,
    pod: Arc<Pod>,
    config: ContainerConfig,
    checkpoint: Option<Checkpoint>,
) -> Result<ContainerId> {
    let name = ContainerName::of(&pod.id, &config)?;
    check(&config)?;
    // It is started soon, as a rule.
    engine.cgroups.expect_move(&engine.tasks);
    let asked = Asked {
        config,
        checkpoint,
        origin: Origin::current(),
    };
    let make = {
        let (engine, name) = (engine.clone(), name.clone());
        move || async move { find_or_make(&engine, &pod, &name, asked).await }
    };
    engine.creations.run(name, make).await
}

/// What a container is to go on from.
#[derive(Debug)]
pub struct Checkpoint {
    /// Where it is.
    pub source: Source,
    /// How it is restored.
    pub goes_on: GoesOn,
    /// How strictly it must be what is asked for.
    pub strict: Match,
}

/// A container that is asked for.
struct Asked {
    config: ContainerConfig,
    checkpoint: Option<Checkpoint>,
    origin: Origin,
}

/// A client that missed our answer asks again: it gets the container that it already has.
async fn find_or_make(
    engine: &Engine,
    pod: &Arc<Pod>,
    name: &ContainerName,
    asked: Asked,
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
        return make_traced(engine, pod, asked).await;
    };
    match container.phase() {
        container::Phase::Created if container.config == asked.config => {
            return Ok(container.id.clone());
        }
        // Half made by an earlier run of the daemon, and not undone yet.
        container::Phase::Creating => {
            teardown::undo_container(engine, &container).await?;
            return make_traced(engine, pod, asked).await;
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

async fn make_traced(engine: &Engine, pod: &Arc<Pod>, asked: Asked) -> Result<ContainerId> {
    let Asked {
        config,
        checkpoint,
        origin,
    } = asked;
    let name = config.metadata.as_ref().map(|it| it.name.clone());
    let trace = engine.trace_of(pod);
    let call = trace.begin("CreateContainer", &name.unwrap_or_default(), origin);
    let id = ContainerId::random();
    let made = match checkpoint {
        // Each holds what those who only join need not.
        Some(given) => Box::pin(make_from(engine, pod, id, config, given, &trace)).await,
        None => Box::pin(make_as_asked(engine, pod, id, config, &trace)).await,
    };
    call.end(&made);
    made
}

/// Makes a container from its image, which may be a checkpoint.
async fn make_as_asked(
    engine: &Engine,
    pod: &Arc<Pod>,
    id: ContainerId,
    config: ContainerConfig,
    trace: &Trace,
) -> Result<ContainerId> {
    let source = match source::of(engine, config.image.as_ref(), pod.namespace()).await? {
        source::Asked::Image(image) => {
            return make(engine, pod, id, config, image, None, trace).await;
        }
        source::Asked::Checkpoint(source) => source,
    };
    let checkpoint = Checkpoint {
        source,
        goes_on: GoesOn::default(),
        strict: Match::Terminal,
    };
    Box::pin(make_from(engine, pod, id, config, checkpoint, trace)).await
}

/// Makes a container that goes on from a checkpoint. What is unpacked before there is a record is
/// removed as debris if we are killed.
async fn make_from(
    engine: &Engine,
    pod: &Arc<Pod>,
    id: ContainerId,
    config: ContainerConfig,
    checkpoint: Checkpoint,
    trace: &Trace,
) -> Result<ContainerId> {
    if criu().is_none() {
        return Err(capture::no_criu());
    }
    let dir = pod.containers_dir().join(id.as_str());
    let name = config.metadata.clone().unwrap_or_default().name;
    let unpacked = go_on::directory_in(&dir);
    let begin = async {
        let unpack = checkpoint.source.unpack(engine, &unpacked);
        trace.step("checkpoint", &name, unpack).await?;
        let unpacked = unpacked.clone();
        let facts = blocking(move || Facts::read(&unpacked)).await?;
        let image = source::base_image(engine, &facts.config, pod.namespace()).await?;
        // What an archive says of its image's name is nobody's word.
        images::admit(engine, &image, None, pod.namespace()).await?;
        if checkpoint.strict == Match::Process {
            let asked = engine.image_for("config.image", config.image.as_ref())?;
            if asked.id != image.id {
                let problem = format!("is {}, but the checkpoint is of {}", asked.id, image.id);
                return Err(Error::invalid("config.image", problem).into());
            }
        }
        Ok((facts, image))
    };
    let (facts, image) = match begin.await {
        Ok(begun) => begun,
        Err(error) => {
            let removed = blocking(move || teardown::remove_tree(&dir)).await;
            if let Err(error) = removed {
                tracing::warn!(%error, "what is left of a checkpoint goes at the next start");
            }
            return Err(error);
        }
    };
    let from = From {
        facts,
        goes_on: checkpoint.goes_on,
        strict: checkpoint.strict,
    };
    make(engine, pod, id, config, image, Some(Box::new(from)), trace).await
}

/// What is known of the checkpoint that a container goes on from.
struct From {
    facts: Facts,
    goes_on: GoesOn,
    strict: Match,
}

async fn make(
    engine: &Engine,
    pod: &Arc<Pod>,
    id: ContainerId,
    config: ContainerConfig,
    image: orlop_image::Image,
    from: Option<Box<From>>,
    trace: &Trace,
) -> Result<ContainerId> {
    let facts = ImageFacts {
        id: image.id.to_string(),
        reference: image
            .repo_digests
            .first()
            .cloned()
            .unwrap_or_else(|| image.id.to_string()),
        name: match &from {
            Some(from) => from.facts.config.rootfs_image_name.clone(),
            None => name_for_people(&config, &image),
        },
    };
    let pod_too = Arc::clone(pod);
    let name = config.metadata.clone().unwrap_or_default().name;
    let goes_on = from.as_ref().map(|from| from.goes_on);
    let create = blocking(move || Container::create(id, &pod_too, config, facts, goes_on));
    let container = Arc::new(trace.step("record", &name, create).await?);
    engine.containers.insert(Arc::clone(&container));
    match complete(engine, &container, &image, from, trace).await {
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
    from: Option<Box<From>>,
    trace: &Trace,
) -> Result<()> {
    let _hold = engine.nri.hold().await;
    let effective = bundle::build(engine, container, image, trace).await?;
    if let Some(from) = from {
        go_on::check(container, &from.facts, from.strict).await?;
    }
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
