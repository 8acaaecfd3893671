//! `Exec`: a URL under which a command can be run interactively, once and soon.

use orlop_cri::v1::{ExecRequest, ExecResponse};

use crate::error::{Error, Result};
use crate::find;
use crate::rpc::attach::check_streams;
use crate::shim::Shim;

/// Answers the call.
pub(crate) async fn call(shim: &Shim, request: ExecRequest) -> Result<ExecResponse> {
    check_streams(request.tty, request.stdin, request.stdout, request.stderr)?;
    if request.cmd.first().is_none_or(String::is_empty) {
        return Err(Error::invalid("cmd", "is empty; name a program").into());
    }
    let container = find::running_container(shim, &request.container_id).await?;
    let url = shim.streams()?.exec_url(orlop_stream::ExecRequest {
        container_id: container.id,
        cmd: request.cmd,
        tty: request.tty,
        stdin: request.stdin,
        stdout: request.stdout,
        stderr: request.stderr,
    });
    let url = url.map_err(|error| Error::Exhausted(error.to_string()))?;
    Ok(ExecResponse { url })
}
