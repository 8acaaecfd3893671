//! `Version`: the name and version of the runtime and the engine.

use std::time::Duration;

use orlop_cri_api::v1::{VersionRequest, VersionResponse};

use crate::error::{Error, Result};
use crate::shim::Shim;

/// The version of the kubelet's runtime API that this message has always carried.
const KUBELET_API: &str = "0.1.0";
/// The runtime name that dockershim and cri-dockerd report.
const NAME: &str = "docker";
const LIMIT: Duration = Duration::from_secs(5);

pub(crate) async fn call(shim: &Shim, _: VersionRequest) -> Result<VersionResponse> {
    let info = shim.docker.version_info(LIMIT).await;
    let info = info.map_err(Error::engine("asking the Docker Engine for its version"))?;
    Ok(VersionResponse {
        version: KUBELET_API.into(),
        runtime_name: NAME.into(),
        runtime_version: info.version,
        runtime_api_version: "v1".into(),
    })
}
