//! `Exec`: returns a short-lived, single-use URL for an interactive command.

use orlop_cri_api::v1::{ExecRequest, ExecResponse};
use orlop_cri_server::sessions;

use crate::error::{Error, Result};
use crate::find;
use crate::shim::Shim;

pub(crate) async fn call(shim: &Shim, request: ExecRequest) -> Result<ExecResponse> {
    sessions::check_exec(&request).map_err(Error::from)?;
    let container = find::running_container(&shim.docker, &request.container_id).await?;
    let answer = sessions::exec(&shim.streams, request, container.id);
    Ok(answer.map_err(Error::from)?)
}
