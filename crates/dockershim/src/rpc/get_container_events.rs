//! `GetContainerEvents`: what happens to pods and containers from now on.

use futures_util::StreamExt as _;
use futures_util::stream;
use orlop_cri::v1::{ContainerEventResponse, GetEventsRequest};

use crate::error::Result;
use crate::service::Answers;
use crate::shim::Shim;

/// Answers the call.
pub(crate) async fn call(
    shim: &Shim,
    _: GetEventsRequest,
) -> Result<Answers<ContainerEventResponse>> {
    let events = shim.events.subscribers.subscribe();
    let next = |mut events: tokio::sync::mpsc::Receiver<_>| async move {
        let event = events.recv().await?;
        Some((event, events))
    };
    Ok(stream::unfold(events, next).boxed())
}
