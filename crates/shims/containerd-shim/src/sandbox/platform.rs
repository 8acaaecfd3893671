//! `Platform`: the platform of the pod's containers.

use std::sync::Arc;

use orlop_containerd_api::sandbox::{PlatformRequest, PlatformResponse};
use orlop_containerd_api::types::Platform;

use crate::error::Result;
use crate::shim::Shim;

pub(super) fn call(_: &Arc<Shim>, _: PlatformRequest) -> Result<PlatformResponse> {
    // The architecture in Go's naming.
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    Ok(PlatformResponse {
        platform: Some(Platform {
            os: "linux".into(),
            architecture: architecture.into(),
        }),
    })
}
