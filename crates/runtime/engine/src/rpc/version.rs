//! `Version`: returns the name and version of the runtime.

use orlop_cri_api::v1::{VersionRequest, VersionResponse};

use crate::engine::Engine;
use crate::error::Result;

/// The version of the kubelet's runtime API, which has always been this constant.
const KUBELET_API: &str = "0.1.0";

/// Handles the `Version` call.
pub async fn call(_: &Engine, _: VersionRequest) -> Result<VersionResponse> {
    Ok(VersionResponse {
        version: KUBELET_API.into(),
        runtime_name: "orlop".into(),
        runtime_version: env!("CARGO_PKG_VERSION").into(),
        runtime_api_version: "v1".into(),
    })
}
