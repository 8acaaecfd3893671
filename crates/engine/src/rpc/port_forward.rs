//! `PortForward`: a URL under which ports of a pod can be reached, once and soon.

use orlop_cri::v1::{PortForwardRequest, PortForwardResponse};

use crate::engine::Engine;
use crate::error::{Error, Result};

/// Answers the call.
pub async fn call(engine: &Engine, request: PortForwardRequest) -> Result<PortForwardResponse> {
    let pod = engine.pods.find(&request.pod_sandbox_id)?;
    // A pod that does not run has no ports.
    pod.keeper()?;
    let port = |port: &i32| {
        u16::try_from(*port)
            .ok()
            .filter(|port| *port > 0)
            .ok_or_else(|| {
                Error::invalid("port", format!("{port} is no port; ports are 1 to 65535"))
            })
    };
    let ports = request
        .port
        .iter()
        .map(port)
        .collect::<Result<_, Error>>()?;
    let url = engine
        .streams()?
        .port_forward_url(orlop_stream::PortForwardRequest {
            pod_id: pod.id.to_string(),
            ports,
        });
    let url = url.map_err(|error| Error::Exhausted(error.to_string()))?;
    Ok(PortForwardResponse { url })
}
