//! `CheckpointContainer`: writes a running container to an archive; the container continues to run.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use orlop_cri_api::v1::{CheckpointContainerRequest, CheckpointContainerResponse};
use tokio_util::sync::CancellationToken;

use crate::checkpoint::options::Options;
use crate::checkpoint::{archive, capture};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::reach::{self, Named};

/// Handles the `CheckpointContainer` call.
pub async fn call(
    Engine(node): &Engine,
    request: CheckpointContainerRequest,
) -> Result<CheckpointContainerResponse> {
    let container = node.containers.visible(&request.container_id)?;
    let location = Path::new(&request.location).to_owned();
    let (named, asked) = (vec![Named::new("location", &location)], location.clone());
    reach::touching(&node.config(), named.clone(), move || check(&asked)).await?;
    let limit = match u64::try_from(request.timeout) {
        Ok(0) => capture::USUAL_LIMIT,
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let problem = format!("is {}; it must not be negative", request.timeout);
            return Err(Error::invalid("timeout", problem).into());
        }
    };
    capture::check(&node.runtimes, &container)?;
    let stop = CancellationToken::new();
    // If the client disconnects, the container must not stay frozen.
    let _left = stop.clone().drop_guard();
    let node_too = Arc::clone(node);
    let work = async move {
        let _turn = container.dumps.lock().await;
        let containers = [container.clone()];
        let options = Options::default();
        let mut outcome = capture::capture(
            &node_too.images,
            &node_too.runtimes,
            &containers,
            options,
            limit,
            &stop,
        )
        .await;
        if outcome.is_ok() {
            let dir = capture::directory(&container);
            let write = move || archive::write(&dir, &location, &stop);
            outcome = reach::touching(&node_too.config(), named, write).await;
        }
        capture::clear(&containers).await;
        outcome
    };
    node.finish(work).await?;
    Ok(CheckpointContainerResponse {})
}

fn check(location: &Path) -> Result<()> {
    let invalid = |problem: &str| Err(Error::invalid("location", problem).into());
    if !location.is_absolute() || location.file_name().is_none() {
        return invalid("must be the absolute path of a file");
    }
    if location.is_dir() {
        return invalid("is a directory; it must be the path of a file");
    }
    match location.parent() {
        Some(parent) if parent.is_dir() => Ok(()),
        _ => invalid("is in a directory that does not exist; create it first"),
    }
}
