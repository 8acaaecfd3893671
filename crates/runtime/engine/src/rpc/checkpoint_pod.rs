//! `CheckpointPod`: writes running containers of a pod to a directory, all at the same moment; they continue to run.

use std::sync::Arc;

use orlop_cri_api::v1::{CheckpointPodRequest, CheckpointPodResponse};
use tokio_util::sync::CancellationToken;

use crate::checkpoint::options::Options;
use crate::checkpoint::{capture, of_pod};
use crate::engine::Engine;
use crate::error::Result;
use crate::reach::{self, Named};

/// Handles the `CheckpointPod` call.
pub async fn call(
    Engine(node): &Engine,
    request: CheckpointPodRequest,
) -> Result<CheckpointPodResponse> {
    let pod = node.pods.visible(&request.pod_sandbox_id)?;
    let options = Options::parse(&request.options)?;
    let path = request.output_path;
    let named = vec![Named::new("output_path", &path)];
    let output = reach::touching(&node.config(), named, move || of_pod::output(&path)).await?;
    let containers = of_pod::chosen(
        &node.containers,
        &node.runtimes,
        &pod,
        &request.container_ids,
    )?;
    let stop = CancellationToken::new();
    // If the client disconnects, the pod must not stay frozen.
    let _left = stop.clone().drop_guard();
    let node_too = Arc::clone(node);
    let work = async move {
        let mut turns = Vec::new();
        for container in &containers {
            turns.push(container.dumps.lock().await);
        }
        let limit = capture::USUAL_LIMIT;
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
            outcome = of_pod::write(
                &node_too.config(),
                &pod,
                &containers,
                options,
                output,
                &stop,
            )
            .await;
        }
        capture::clear(&containers).await;
        outcome
    };
    node.finish(work).await?;
    Ok(CheckpointPodResponse {})
}
