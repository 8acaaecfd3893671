//! `PortForward`: returns a short-lived, single-use URL for ports of a pod.

use orlop_cri_api::v1::{PortForwardRequest, PortForwardResponse};
use orlop_cri_server::sessions;

use crate::error::{Error, Result};
use crate::find;
use crate::shim::Shim;

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
