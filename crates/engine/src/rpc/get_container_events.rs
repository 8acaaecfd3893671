//! `GetContainerEvents`: what happens from now on.

use futures_util::StreamExt as _;
use orlop_cri::v1::{ContainerEventResponse, GetEventsRequest};
use tokio_stream::wrappers::ReceiverStream;

use crate::engine::Engine;
use crate::error::Result;
use crate::service::Answers;

/// Answers the call.
pub async fn call(engine: &Engine, _: GetEventsRequest) -> Result<Answers<ContainerEventResponse>> {
    Ok(ReceiverStream::new(engine.events.subscribe()).boxed())
}
