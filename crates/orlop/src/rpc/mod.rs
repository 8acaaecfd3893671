//! What happens around every call, whoever answers it: identity, log, metrics,
//! bounds, and an answer even to a panic.

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
