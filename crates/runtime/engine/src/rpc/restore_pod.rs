//! `RestorePod`: creates a pod and its containers from a checkpoint. The containers continue once they are started.

use std::collections::BTreeSet;
use std::sync::Arc;

use orlop_cri_api::v1::{
    ContainerConfig, RestorePodRequest, RestorePodResponse, RestoredContainer, RunPodSandboxRequest,
};

use super::{create_container, run_pod_sandbox};
use crate::ask::ContainerAsk;
use crate::checkpoint::go_on::Match;
use crate::checkpoint::of_pod::{self, Checkpoint};
use crate::checkpoint::options::Options;
use crate::checkpoint::source::{Source, check_archives_are_allowed};
use crate::engine::Engine;
use crate::error::{Error, Result, chain};
use crate::node::Node;
use crate::pod::teardown;
use crate::reach::{self, Named};
use crate::record::container::GoesOn;
use crate::record::names::PodName;
use crate::record::pod::Pod;

/// Handles the `RestorePod` call.
pub async fn call(Engine(node): &Engine, request: RestorePodRequest) -> Result<RestorePodResponse> {
    let node_too = Arc::clone(node);
    // A half-restored pod is undone even if the client disconnects.
    node.finish(async move { restore(&node_too, request).await })
        .await
}

async fn restore(node: &Arc<Node>, request: RestorePodRequest) -> Result<RestorePodResponse> {
    check_archives_are_allowed(node)?;
    let asked = Options::parse(&request.options)?;
    let config = request
        .config
        .ok_or_else(|| Error::invalid("config", "is missing"))?;
    let path = request.checkpoint_path;
    let named = vec![Named::new("checkpoint_path", &path)];
    let checkpoint = reach::touching(&node.config(), named, move || of_pod::read(&path)).await?;
    check_names(&checkpoint, &request.container_configs)?;
    let runtime = &node.runtimes.handler(&request.runtime_handler)?.name;
    if *runtime != checkpoint.runtime {
        let problem = format!(
            "selects {runtime:?}, but the checkpoint was written by {:?}",
            checkpoint.runtime
        );
        return Err(Error::invalid("runtime_handler", problem).into());
    }
    let goes_on = GoesOn {
        tcp_established: asked.tcp_established || checkpoint.options.tcp_established,
    };
    // Validate the containers before the pod is created.
    let containers = request.container_configs.into_iter();
    let containers = containers.map(|config| ContainerAsk::read(Some(config)));
    let containers = containers.collect::<Result<Vec<_>>>()?;
    // A client that missed the answer repeats the request.
    let was_there = node.pods.named(&PodName::of(&config)?).is_some();
    let run = RunPodSandboxRequest {
        config: Some(config),
        runtime_handler: request.runtime_handler,
    };
    let id = run_pod_sandbox::run(node, run).await?.pod_sandbox_id;
    let pod = node.pods.find(&id)?;
    match make_containers(node, &pod, containers, &checkpoint, goes_on).await {
        Ok(restored_containers) => Ok(RestorePodResponse {
            pod_sandbox_id: id,
            restored_containers,
        }),
        Err(error) => {
            if !was_there && let Err(problem) = teardown::remove(node, &pod).await {
                tracing::error!(
                    pod = id,
                    error = chain(&*problem),
                    "cannot remove a pod that could not be restored"
                );
            }
            Err(error)
        }
    }
}

/// Checks that the request names exactly the containers of the checkpoint.
fn check_names(checkpoint: &Checkpoint, configs: &[ContainerConfig]) -> Result<()> {
    const FIELD: &str = "container_configs";
    if configs.is_empty() {
        return Err(Error::invalid(FIELD, "is empty").into());
    }
    let mut names = BTreeSet::new();
    for config in configs {
        let name = config.metadata.clone().unwrap_or_default().name;
        if name.is_empty() {
            return Err(Error::invalid(FIELD, "contains a container without a name").into());
        }
        if !checkpoint.archives.contains_key(&name) {
            let there: Vec<_> = checkpoint.archives.keys().collect();
            let problem = format!("contains {name:?}, but the checkpoint has {there:?}");
            return Err(Error::invalid(FIELD, problem).into());
        }
        if !names.insert(name.clone()) {
            return Err(Error::invalid(FIELD, format!("contains {name:?} twice")).into());
        }
    }
    match checkpoint
        .archives
        .keys()
        .find(|name| !names.contains(*name))
    {
        Some(name) => {
            let problem = format!("has no {name:?}, which the checkpoint has");
            Err(Error::invalid(FIELD, problem).into())
        }
        None => Ok(()),
    }
}

async fn make_containers(
    node: &Arc<Node>,
    pod: &Arc<Pod>,
    containers: Vec<ContainerAsk>,
    checkpoint: &Checkpoint,
    goes_on: GoesOn,
) -> Result<Vec<RestoredContainer>> {
    let mut made = Vec::new();
    for asked in containers {
        let name = asked.config.metadata.clone().unwrap_or_default().name;
        let Some(archive) = checkpoint.archives.get(&name) else {
            continue;
        };
        let from = create_container::Checkpoint {
            source: Source::Archive(archive.clone()),
            goes_on,
            strict: Match::Process,
        };
        let id = create_container::create(node, Arc::clone(pod), asked, Some(from)).await?;
        made.push(RestoredContainer {
            name,
            container_id: id.to_string(),
        });
    }
    Ok(made)
}
