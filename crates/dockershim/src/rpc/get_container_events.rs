//! `GetContainerEvents`: streams pod and container events, including those that the client has missed.

use futures_util::StreamExt as _;
use orlop_cri_api::v1::{ContainerEventResponse, GetEventsRequest};
use orlop_cri_server::events::Listener;
use orlop_cri_server::frame::Answers;
use orlop_cri_server::timeline::Origin;

use crate::error::{Error, Result};
use crate::shim::Shim;

pub(crate) async fn call(
    shim: &Shim,
    _: GetEventsRequest,
) -> Result<Answers<ContainerEventResponse>> {
    let listener = Origin::current().caller.and_then(Listener::of);
    let events = shim.events.subscribers.subscribe(listener);
    if listener.is_some() {
        let shim = shim.clone();
        let written = orlop_pool::blocking(move || shim.events.subscribers.write_down());
        written.await.map_err(|_| {
            Error::Internal("a task panicked while recording an event listener".to_owned())
        })?;
    }
    Ok(events.boxed())
}
