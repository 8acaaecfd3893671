//! `PortForward`: a URL under which ports of a pod can be reached, once and soon.

use orlop_cri_api::v1::{PortForwardRequest, PortForwardResponse};
use orlop_cri_server::sessions;

use crate::engine::Engine;
use crate::error::{Error, Result};

/// Answers the call.
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
