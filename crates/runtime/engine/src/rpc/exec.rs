//! `Exec`: a URL under which a command can be run interactively, once and soon.

use orlop_cri_api::v1::{ExecRequest, ExecResponse};
use orlop_cri_server::sessions;

use crate::engine::Engine;
use crate::error::{Error, Result};

/// Answers the call.
pub async fn call(Engine(node): &Engine, request: ExecRequest) -> Result<ExecResponse> {
    sessions::check_exec(&request).map_err(Error::from)?;
    let container = node.containers.running(&request.container_id)?;
    let answer = sessions::exec(&*node.streams()?, request, container.id.to_string());
    Ok(answer.map_err(Error::from)?)
}
