//! `WatchReadFailures`: streams failed reads of content that is not on disk and cannot be fetched.

use futures_util::{StreamExt as _, stream};
use orlop_cri_api::images::{ReadFailure, WatchReadFailuresRequest};
use tokio::sync::broadcast::error::RecvError;
use tonic::Status;

use crate::batches::Answers;
use crate::clock;
use crate::engine::Engine;
use crate::error::Result;

/// Handles the `WatchReadFailures` call.
pub async fn call(
    Engine(node): &Engine,
    _: WatchReadFailuresRequest,
) -> Result<Answers<ReadFailure>> {
    let failures = node.images.read_failures();
    let answers = stream::unfold(failures, |mut failures| async move {
        let answer = match failures.recv().await {
            Ok(failure) => Ok(told(failure)),
            Err(RecvError::Lagged(missed)) => Err(Status::data_loss(format!(
                "the subscriber was too slow and missed failures ({missed}); subscribe again"
            ))),
            Err(RecvError::Closed) => return None,
        };
        Some((answer, failures))
    });
    Ok(answers.boxed())
}

fn told(failure: orlop_image_store::ReadFailure) -> ReadFailure {
    ReadFailure {
        at: clock::now(),
        image_ids: failure.images.iter().map(ToString::to_string).collect(),
        images: failure.names,
        layer: failure.layer.to_string(),
        registry: failure.registry,
        reason: failure.reason,
        timed_out: failure.timed_out,
    }
}
