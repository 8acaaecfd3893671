//! `CollectGarbage`: removes what no image, pull or container uses.

use std::collections::HashSet;
use std::time::Duration;

use orlop_cri::images::{CollectGarbageRequest, CollectGarbageResponse};
use orlop_image::{Digest, Freed};

use crate::engine::Engine;
use crate::error::{Error, Result};

/// Answers the call.
pub async fn call(
    engine: &Engine,
    request: CollectGarbageRequest,
) -> Result<CollectGarbageResponse> {
    let images = if request.unused_images {
        unused(engine)
    } else {
        Vec::new()
    };
    if request.dry_run {
        let freed = engine.images.would_free(&images).await;
        let freed = freed.map_err(failed("looking for what is not needed"))?;
        let mut answer = CollectGarbageResponse::default();
        answer
            .removed
            .extend(images.iter().map(ToString::to_string));
        count(&mut answer, &freed);
        return Ok(answer);
    }
    engine.finish(collect(engine.clone(), images)).await
}

async fn collect(engine: Engine, images: Vec<Digest>) -> Result<CollectGarbageResponse> {
    let mut answer = CollectGarbageResponse::default();
    for id in images {
        // A container may have come meanwhile.
        if in_use(&engine).contains(&id.to_string()) {
            continue;
        }
        let freed = engine.images.remove(&id.to_string()).await;
        let freed = freed.map_err(failed("removing an image that is not in use"))?;
        engine.metrics.freed(&freed);
        answer.removed.push(id.to_string());
        count(&mut answer, &freed);
    }
    // What pulls and containers need is held, however young it is.
    let freed = engine.images.gc(Duration::ZERO).await;
    let freed = freed.map_err(failed("removing what is not needed"))?;
    engine.metrics.freed(&freed);
    count(&mut answer, &freed);
    Ok(answer)
}

/// The images that no container uses and that aren't pinned.
fn unused(engine: &Engine) -> Vec<Digest> {
    let in_use = in_use(engine);
    let images = engine.images.list().into_iter();
    images
        .filter(|image| !image.pinned && !in_use.contains(&image.id.to_string()))
        .map(|image| image.id)
        .collect()
}

/// The ids of the images of containers and image volumes.
fn in_use(engine: &Engine) -> HashSet<String> {
    let containers = engine.containers.all();
    let of_containers = containers.iter().map(|one| one.image.id.clone());
    let leases = engine.images.leases().into_iter();
    of_containers
        .chain(leases.map(|lease| lease.image.to_string()))
        .collect()
}

fn count(answer: &mut CollectGarbageResponse, freed: &Freed) {
    let layers = freed.removed.iter();
    answer.removed.extend(layers.map(ToString::to_string));
    answer.freed_bytes += freed.bytes;
}

fn failed(doing: &'static str) -> impl FnOnce(orlop_image::Error) -> Error {
    move |source| Error::Image {
        doing: doing.into(),
        source,
    }
}
