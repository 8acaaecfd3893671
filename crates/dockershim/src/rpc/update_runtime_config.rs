//! `UpdateRuntimeConfig`: sets the node's pod CIDR for the network.

use orlop_cri_api::v1::{UpdateRuntimeConfigRequest, UpdateRuntimeConfigResponse};

use crate::error::{Error, Result};
use crate::shim::Shim;

pub(crate) async fn call(
    shim: &Shim,
    request: UpdateRuntimeConfigRequest,
) -> Result<UpdateRuntimeConfigResponse> {
    let network = request
        .runtime_config
        .and_then(|config| config.network_config);
    let pod_cidr = network.map(|network| network.pod_cidr).unwrap_or_default();
    if let Some(networks) = shim.network.cni().filter(|_| !pod_cidr.is_empty()) {
        let set = networks.set_pod_cidr(&pod_cidr).await;
        set.map_err(|source| Error::Network {
            doing: format!("setting the pod CIDR {pod_cidr:?}"),
            source,
        })?;
    }
    Ok(UpdateRuntimeConfigResponse {})
}
