//! `GetContainerEvents`: what happens from now on.

use futures_util::StreamExt as _;
use orlop_cri::v1::{ContainerEventResponse, GetEventsRequest};
use tokio_stream::wrappers::ReceiverStream;

use crate::batches::Answers;
use crate::engine::Engine;
use crate::error::Result;

/// Answers the call.
pub async fn call(
    Engine(node): &Engine,
    _: GetEventsRequest,
) -> Result<Answers<ContainerEventResponse>> {
    Ok(ReceiverStream::new(node.events.subscribe()).boxed())
}
