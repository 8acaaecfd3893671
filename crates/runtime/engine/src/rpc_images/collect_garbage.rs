//! `CollectGarbage`: removes layers and images that nothing uses.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use orlop_cri_api::images::{CollectGarbageRequest, CollectGarbageResponse};
use orlop_image_store::{Digest, Freed};

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::node::Node;

/// Handles the `CollectGarbage` call.
pub async fn call(
    Engine(node): &Engine,
    request: CollectGarbageRequest,
) -> Result<CollectGarbageResponse> {
    let images = if request.unused_images {
        unused(node)
    } else {
        Vec::new()
    };
    if request.dry_run {
        let freed = node.images.would_free(&images).await;
        let freed = freed.map_err(failed("finding unused images and layers"))?;
        let mut answer = CollectGarbageResponse::default();
        answer
            .removed
            .extend(images.iter().map(ToString::to_string));
        count(&mut answer, &freed);
        return Ok(answer);
    }
    node.finish(collect(Arc::clone(node), images)).await
}

async fn collect(node: Arc<Node>, images: Vec<Digest>) -> Result<CollectGarbageResponse> {
    let mut answer = CollectGarbageResponse::default();
    for id in images {
        // A container may use it by now.
        if in_use(&node).contains(&id.to_string()) {
            continue;
        }
        let freed = node.images.remove(&id.to_string()).await;
        let freed = freed.map_err(failed("removing an unused image"))?;
        node.metrics.freed(&freed);
        answer.removed.push(id.to_string());
        count(&mut answer, &freed);
    }
    // No minimum age is needed, because leases protect the content that pulls and containers use.
    let freed = node.images.gc(Duration::ZERO).await;
    let freed = freed.map_err(failed("removing unused layers"))?;
    node.metrics.freed(&freed);
    count(&mut answer, &freed);
    Ok(answer)
}

/// Returns the images that no container uses and that are not pinned.
fn unused(node: &Node) -> Vec<Digest> {
    let in_use = in_use(node);
    let images = node.images.list().into_iter();
    images
        .filter(|image| !image.pinned && !in_use.contains(&image.id.to_string()))
        .map(|image| image.id)
        .collect()
}

/// Returns the IDs of the images of containers and image volumes.
fn in_use(node: &Node) -> HashSet<String> {
    let containers = node.containers.all();
    let of_containers = containers.iter().map(|one| one.image.id.clone());
    let leases = node.images.leases().into_iter();
    of_containers
        .chain(leases.map(|lease| lease.image.to_string()))
        .collect()
}

fn count(answer: &mut CollectGarbageResponse, freed: &Freed) {
    let layers = freed.removed.iter();
    answer.removed.extend(layers.map(ToString::to_string));
    answer.freed_bytes += freed.bytes;
}

fn failed(doing: &'static str) -> impl FnOnce(orlop_image_store::Error) -> Error {
    move |source| Error::Image {
        doing: doing.into(),
        source,
    }
}
