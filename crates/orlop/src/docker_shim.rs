//! The CRI service over a Docker Engine, as the daemon's metrics and its debug pages use it.

use std::fmt;

pub(crate) use orlop_dockershim::Shim;
use prometheus_client::encoding::DescriptorEncoder;

/// Asks the Docker Engine for its images and containers.
pub(crate) async fn state(shim: &Shim) -> Result<serde_json::Value, String> {
    let state = shim.state().await;
    state.map_err(|error| orlop_dockershim::chain(&*error))
}

/// Writes the metrics of calls to the Docker Engine.
pub(crate) fn encode_operations(shim: &Shim, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    shim.operations().encode(encoder)
}
