//! `PortForward`: a URL under which ports of a pod can be reached, once and soon.

use orlop_cri::v1::{PortForwardRequest, PortForwardResponse};

use crate::error::{Error, Result};
use crate::find;
use crate::shim::Shim;

/// Answers the call.
pub(crate) async fn call(shim: &Shim, request: PortForwardRequest) -> Result<PortForwardResponse> {
    let sandbox = find::sandbox(shim, &request.pod_sandbox_id).await?;
    if !sandbox.state.running {
        let problem = format!("pod sandbox {} does not run; it has no ports", sandbox.id);
        return Err(Error::Precondition(problem).into());
    }
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
    let url = shim
        .streams()?
        .port_forward_url(orlop_stream::PortForwardRequest {
            pod_id: sandbox.id,
            ports,
        });
    let url = url.map_err(|error| Error::Exhausted(error.to_string()))?;
    Ok(PortForwardResponse { url })
}
