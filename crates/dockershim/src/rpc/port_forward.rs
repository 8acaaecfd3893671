//! `PortForward`: a URL under which ports of a pod can be reached, once and soon.

use orlop_cri_api::v1::{PortForwardRequest, PortForwardResponse};
use orlop_cri_server::sessions;

use crate::error::{Error, Result};
use crate::find;
use crate::shim::Shim;

/// Answers the call.
pub(crate) async fn call(shim: &Shim, request: PortForwardRequest) -> Result<PortForwardResponse> {
    let sandbox = find::sandbox(&shim.docker, &request.pod_sandbox_id).await?;
    if !sandbox.state.running {
        let problem = format!(
            "pod sandbox {} is not running; cannot forward its ports",
            sandbox.id
        );
        return Err(Error::Precondition(problem).into());
    }
    let pod = sandbox.id;
    let ports = sessions::ports(&request).map_err(Error::from)?;
    let answer = sessions::port_forward(&shim.streams, pod, ports);
    Ok(answer.map_err(Error::from)?)
}
