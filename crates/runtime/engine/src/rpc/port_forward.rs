//! `PortForward`: returns a single-use, short-lived URL to reach ports of a pod.

use orlop_cri_api::v1::{PortForwardRequest, PortForwardResponse};
use orlop_cri_server::sessions;

use crate::engine::Engine;
use crate::error::{Error, Result};

/// Handles the `PortForward` call.
pub async fn call(
    Engine(node): &Engine,
    request: PortForwardRequest,
) -> Result<PortForwardResponse> {
    let pod = node.pods.find(&request.pod_sandbox_id)?;
    // A pod that does not run has no ports.
    pod.keeper()?;
    let pod = pod.id.to_string();
    let ports = sessions::ports(&request).map_err(Error::from)?;
    let answer = sessions::port_forward(&*node.streams()?, pod, ports);
    Ok(answer.map_err(Error::from)?)
}
