//! `GetContainerEvents`: streams container events, beginning with those that the client has missed.

use std::sync::Arc;

use futures_util::StreamExt as _;
use orlop_cri_api::v1::{ContainerEventResponse, GetEventsRequest};
use orlop_cri_server::events::Listener;

use crate::batches::Answers;
use crate::blocking;
use crate::engine::Engine;
use crate::error::Result;
use crate::timeline::Origin;

/// Handles the `GetContainerEvents` call.
pub async fn call(
    Engine(node): &Engine,
    _: GetEventsRequest,
) -> Result<Answers<ContainerEventResponse>> {
    let listener = Origin::current().caller.and_then(Listener::of);
    let events = node.events.subscribe(listener);
    if listener.is_some() {
        let node = Arc::clone(node);
        blocking(move || {
            node.events.write_down();
            Ok(())
        })
        .await?;
    }
    Ok(events.boxed())
}
