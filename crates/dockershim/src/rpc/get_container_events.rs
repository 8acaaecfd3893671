//! `GetContainerEvents`: what happens to pods and containers from now on, and what the client has missed.

use futures_util::StreamExt as _;
use orlop_cri::v1::{ContainerEventResponse, GetEventsRequest};
use orlop_service::events::Listener;
use orlop_service::timeline::Origin;

use crate::error::Result;
use crate::service::Answers;
use crate::shim::Shim;

/// Answers the call.
pub(crate) async fn call(
    shim: &Shim,
    _: GetEventsRequest,
) -> Result<Answers<ContainerEventResponse>> {
    let listener = Origin::current().caller.and_then(Listener::of);
    Ok(shim.events.subscribers.subscribe(listener).boxed())
}
