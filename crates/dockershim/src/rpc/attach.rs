//! `Attach`: a URL under which a container's own streams can be joined, once and soon.

use orlop_cri::v1::{AttachRequest, AttachResponse};

use crate::error::{Error, Result};
use crate::find;
use crate::shim::Shim;

/// Answers the call.
pub(crate) async fn call(shim: &Shim, request: AttachRequest) -> Result<AttachResponse> {
    check_streams(request.tty, request.stdin, request.stdout, request.stderr)?;
    let container = find::running_container(shim, &request.container_id).await?;
    let url = shim.streams()?.attach_url(orlop_stream::AttachRequest {
        container_id: container.id,
        tty: container.config.tty,
        stdin: request.stdin,
        stdout: request.stdout,
        stderr: request.stderr && !container.config.tty,
    });
    let url = url.map_err(|error| Error::Exhausted(error.to_string()))?;
    Ok(AttachResponse { url })
}

/// Refuses combinations of streams that make no session.
#[allow(
    clippy::fn_params_excessive_bools,
    reason = "they are the request's fields"
)]
pub(crate) fn check_streams(tty: bool, stdin: bool, stdout: bool, stderr: bool) -> Result<()> {
    if tty && stderr {
        let problem = "can't be had together with tty; a terminal has one output";
        return Err(Error::invalid("stderr", problem).into());
    }
    if !(stdin || stdout || stderr) {
        let problem = "one of stdin, stdout and stderr is needed";
        return Err(Error::invalid("stdin, stdout, stderr", problem).into());
    }
    Ok(())
}
