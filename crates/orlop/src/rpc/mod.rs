//! Handling around every gRPC call: request ID, log, metrics, limits, and a response even to a panic.

mod answers;
mod body;
mod call;
mod counts;
mod in_work;
mod layer;
mod limits;
mod method;
mod peer;
mod request_id;
#[cfg(test)]
mod tests;

pub(crate) use counts::CallMetrics;
pub(crate) use layer::{CallLayer, Policy};
pub(crate) use peer::Peer;
