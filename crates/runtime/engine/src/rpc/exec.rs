//! `Exec`: returns a single-use, short-lived URL to run a command interactively.

use orlop_cri_api::v1::{ExecRequest, ExecResponse};
use orlop_cri_server::sessions;

use crate::engine::Engine;
use crate::error::{Error, Result};

/// Handles the `Exec` call.
pub async fn call(Engine(node): &Engine, request: ExecRequest) -> Result<ExecResponse> {
    sessions::check_exec(&request).map_err(Error::from)?;
    let container = node.containers.running(&request.container_id)?;
    let answer = sessions::exec(&*node.streams()?, request, container.id.to_string());
    Ok(answer.map_err(Error::from)?)
}
