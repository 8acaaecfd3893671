//! `UpdateRuntimeConfig`: sets the pod network's address range, if the kubelet knows it.

use orlop_cri_api::v1::{UpdateRuntimeConfigRequest, UpdateRuntimeConfigResponse};

use crate::engine::Engine;
use crate::error::{Error, Result};

/// Handles the `UpdateRuntimeConfig` call.
pub async fn call(
    Engine(node): &Engine,
    request: UpdateRuntimeConfigRequest,
) -> Result<UpdateRuntimeConfigResponse> {
    let network = request
        .runtime_config
        .and_then(|config| config.network_config);
    let cidr = network.map(|network| network.pod_cidr).unwrap_or_default();
    if !cidr.is_empty() {
        node.networks
            .set_pod_cidr(&cidr)
            .await
            .map_err(|source| Error::Network {
                doing: format!("setting the pods' address range to {cidr}"),
                source,
            })?;
    }
    Ok(UpdateRuntimeConfigResponse {})
}
