//! `CreateContainer`: validates a container and prepares its files, but starts no process.

use std::sync::Arc;

use orlop_cri_api::v1::{
    ContainerConfig, ContainerEventType, CreateContainerRequest, CreateContainerResponse,
};
use orlop_launch::criu;
use orlop_oci_types as oci;

use crate::ask::ContainerAsk;
use crate::checkpoint::capture;
use crate::checkpoint::go_on::{self, Match};
use crate::checkpoint::source::{self, Facts, Source};
use crate::container::bundle::{self, Wishes};
use crate::container::plan::Plan;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::node::Node;
use crate::pod::teardown;
use crate::record::container::{self, Container, Effective, Event, GoesOn, ImageFacts};
use crate::record::directories::remove_tree;
use crate::record::ids::ContainerId;
use crate::record::names::ContainerName;
use crate::record::pod::{Phase, Pod};
use crate::record::spec_file;
use crate::timeline::{Origin, Trace};
use crate::{blocking, image, nri};

/// Handles the `CreateContainer` call.
pub async fn call(
    Engine(node): &Engine,
    request: CreateContainerRequest,
) -> Result<CreateContainerResponse> {
    let pod = node.pods.find(&request.pod_sandbox_id)?;
    let asked = ContainerAsk::read(request.config)?;
    let id = create(node, pod, asked, None).await?;
    Ok(CreateContainerResponse {
        container_id: id.to_string(),
    })
}

/// Creates a container, from a checkpoint if one is given or if its image is one.
pub async fn create(
    node: &Arc<Node>,
    pod: Arc<Pod>,
    ContainerAsk { config }: ContainerAsk,
    checkpoint: Option<Checkpoint>,
) -> Result<ContainerId> {
    let name = ContainerName::of(&pod.id, &config)?;
    if let Ok(handler) = node.runtimes.of(&pod) {
        // A start usually follows soon.
        node.cgroups.expect_move(&handler.features, &node.tasks);
    }
    let asked = Asked {
        config,
        checkpoint,
        origin: Origin::current(),
    };
    let make = {
        let (node, name) = (Arc::clone(node), name.clone());
        move || async move { find_or_make(&node, &pod, &name, asked).await }
    };
    node.creations.run(name, make).await
}

/// The checkpoint that a new container continues from.
#[derive(Debug)]
pub struct Checkpoint {
    /// Location of the checkpoint.
    pub source: Source,
    /// Options of the restore.
    pub goes_on: GoesOn,
    /// How closely the checkpoint must match the request.
    pub strict: Match,
}

/// A request to create a container.
struct Asked {
    config: ContainerConfig,
    checkpoint: Option<Checkpoint>,
    origin: Origin,
}

/// Creates a container, or returns the existing one to a client that missed the answer and repeats the request.
async fn find_or_make(
    node: &Arc<Node>,
    pod: &Arc<Pod>,
    name: &ContainerName,
    asked: Asked,
) -> Result<ContainerId> {
    // The pod is not stopped until this is finished.
    let _turn = pod.turn.read().await;
    if pod.phase() != Phase::Ready {
        let problem = format!(
            "pod sandbox {} is not ready; it accepts no containers",
            pod.id
        );
        return Err(Error::Precondition(problem).into());
    }
    let Some(container) = node.containers.named(name) else {
        return make_traced(node, pod, asked).await;
    };
    match container.phase() {
        container::Phase::Created if container.config == asked.config => {
            return Ok(container.id.clone());
        }
        // Half created by an earlier run of the daemon, and not undone yet.
        container::Phase::Creating => {
            teardown::undo_container(node, &container).await?;
            return make_traced(node, pod, asked).await;
        }
        _ => {}
    }
    let id = &container.id;
    Err(Error::Exists(format!(
        "the name {name} is already used by container {id}, which has run or has a different \
         configuration; remove it or use another metadata.attempt"
    ))
    .into())
}

async fn make_traced(node: &Arc<Node>, pod: &Arc<Pod>, asked: Asked) -> Result<ContainerId> {
    let Asked {
        config,
        checkpoint,
        origin,
    } = asked;
    let name = config.metadata.as_ref().map(|it| it.name.clone());
    let trace = node.trace_of(pod);
    let call = trace.begin("CreateContainer", &name.unwrap_or_default(), origin);
    let id = ContainerId::random();
    let made = match checkpoint {
        // Boxed, because requests that only wait for the result do not need these large futures.
        Some(given) => Box::pin(make_from(node, pod, id, config, given, &trace)).await,
        None => Box::pin(make_as_asked(node, pod, id, config, &trace)).await,
    };
    call.end(&made);
    made
}

/// Creates a container from its image, which may be a checkpoint.
async fn make_as_asked(
    node: &Arc<Node>,
    pod: &Arc<Pod>,
    id: ContainerId,
    config: ContainerConfig,
    trace: &Trace,
) -> Result<ContainerId> {
    let source = match source::of(node, config.image.as_ref(), pod.namespace()).await? {
        source::Asked::Image(image) => {
            let facts = facts_of(&image, name_for_people(&config, &image));
            let (config, plan) = Plan::read(node, pod, config, (&facts.name, *image)).await?;
            let what = What {
                config,
                facts,
                plan,
            };
            return make(node, pod, id, what, None, trace).await;
        }
        source::Asked::Checkpoint(source) => source,
    };
    let checkpoint = Checkpoint {
        source,
        goes_on: GoesOn::default(),
        strict: Match::Terminal,
    };
    Box::pin(make_from(node, pod, id, config, checkpoint, trace)).await
}

/// Creates a container from a checkpoint. Its unpacked files have no record at first, so they are removed as debris if
/// the daemon is killed.
async fn make_from(
    node: &Arc<Node>,
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
        let unpack = checkpoint.source.unpack(node, &unpacked);
        trace.step("checkpoint", &name, unpack).await?;
        let unpacked = unpacked.clone();
        let facts = blocking(move || Facts::read(&unpacked)).await?;
        let image = source::base_image(node, &facts.config, pod.namespace()).await?;
        // The image name in an archive is not trustworthy.
        image::admit(
            (&node.images, &node.config().images),
            &image,
            None,
            pod.namespace(),
        )
        .await?;
        if checkpoint.strict == Match::Process {
            let asked =
                image::asked_for(&node.images, "config.image", config.image.as_ref()).await?;
            if asked.id != image.id {
                let problem = format!("is {}, but the checkpoint uses {}", asked.id, image.id);
                return Err(Error::invalid("config.image", problem).into());
            }
        }
        let of_image = facts_of(&image, facts.config.rootfs_image_name.clone());
        let (config, plan) = Plan::read(node, pod, config, (&of_image.name, image)).await?;
        let what = What {
            config,
            facts: of_image,
            plan,
        };
        Ok((facts, what))
    };
    let (facts, what) = match begin.await {
        Ok(begun) => begun,
        Err(error) => {
            let removed = blocking(move || remove_tree(&dir)).await;
            if let Err(error) = removed {
                tracing::warn!(%error, "cannot remove checkpoint files; the next start removes them");
            }
            return Err(error);
        }
    };
    let from = From {
        facts,
        goes_on: checkpoint.goes_on,
        strict: checkpoint.strict,
    };
    make(node, pod, id, what, Some(Box::new(from)), trace).await
}

/// The checkpoint that a container continues from.
struct From {
    facts: Facts,
    goes_on: GoesOn,
    strict: Match,
}

/// A validated container.
struct What {
    config: ContainerConfig,
    facts: ImageFacts,
    plan: Plan,
}

async fn make(
    node: &Arc<Node>,
    pod: &Arc<Pod>,
    id: ContainerId,
    what: What,
    from: Option<Box<From>>,
    trace: &Trace,
) -> Result<ContainerId> {
    let What {
        config,
        facts,
        plan,
    } = what;
    let pod_too = Arc::clone(pod);
    let name = config.metadata.clone().unwrap_or_default().name;
    let goes_on = from.as_ref().map(|from| from.goes_on);
    let at = node.containers.creation_time(pod);
    let create = blocking(move || Container::create(id, &pod_too, config, facts, goes_on, at));
    let container = Arc::new(trace.step("record", &name, create).await?);
    node.containers.insert(Arc::clone(&container));
    match complete(node, &container, plan, from, trace).await {
        Ok(()) => {
            node.tell_container(&container, ContainerEventType::ContainerCreatedEvent);
            nri::post_created(node, &container).await;
            Ok(container.id.clone())
        }
        Err(error) => {
            if let Err(error) = teardown::erase_container(node, &container).await {
                // Clients do not see it; the pod's removal or the next daemon start erases it.
                tracing::error!(container = %container.id, %error, "cannot clean up a failed container");
            }
            Err(error)
        }
    }
}

/// Creates everything that a container needs, and makes it visible to clients.
async fn complete(
    node: &Arc<Node>,
    container: &Arc<Container>,
    plan: Plan,
    from: Option<Box<From>>,
    trace: &Trace,
) -> Result<()> {
    // Before the plugins' lock, so that plugins do not wait for a registry.
    bundle::fetch_images(node, container, &plan, trace).await?;
    let _hold = node.nri.hold().await;
    let effective = build(node, container, plan, trace).await?;
    if let Some(from) = from {
        go_on::check(container, &from.facts, from.strict).await?;
    }
    let recorded = container.record(Event::Ready { effective }).await;
    if recorded.is_err() {
        nri::undone(node, container).await;
    }
    recorded
}

async fn build(
    node: &Arc<Node>,
    container: &Arc<Container>,
    plan: Plan,
    trace: &Trace,
) -> Result<Effective> {
    let wishes = if node.nri.wants(orlop_nri::Event::CreateContainer) {
        Wishes::Plugins
    } else {
        Wishes::None
    };
    let (spec, effective) = bundle::build(node, container, plan, wishes, trace).await?;
    if wishes == Wishes::None {
        return Ok(effective);
    }
    // Boxed, because it holds large messages of plugins.
    let adjust = Box::pin(adjust(node, container, spec, effective));
    let name = container.metadata().name;
    trace.step("plugins", &name, adjust).await
}

/// Applies the plugins' adjustments and writes the specification.
async fn adjust(
    node: &Arc<Node>,
    container: &Arc<Container>,
    spec: oci::Spec,
    effective: Effective,
) -> Result<Effective> {
    let adjusted = Box::pin(nri::adjust(node, container, spec, effective));
    let written = match adjusted.await {
        Ok((spec, effective)) => {
            let container = Arc::clone(container);
            let write = move || {
                spec_file::write(&container.bundle, &spec)?;
                container.specified(&spec);
                Ok(effective)
            };
            blocking(write).await
        }
        Err(error) => Err(error),
    };
    if written.is_err() {
        nri::undone(node, container).await;
    }
    written
}

fn facts_of(image: &orlop_image_store::Image, name: String) -> ImageFacts {
    let id = image.id.to_string();
    ImageFacts {
        reference: image.repo_digests.first().unwrap_or(&id).clone(),
        id,
        name,
    }
}

/// Name of an image for users. Requests often contain only a digest, but users know images by their tags.
fn name_for_people(config: &ContainerConfig, image: &orlop_image_store::Image) -> String {
    let asked = config.image.clone().unwrap_or_default();
    if !asked.user_specified_image.is_empty() {
        return asked.user_specified_image;
    }
    image.repo_tags.first().cloned().unwrap_or(asked.image)
}
