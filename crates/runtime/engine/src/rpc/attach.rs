//! `Attach`: returns a single-use, short-lived URL to attach to a container's streams.

use orlop_cri_api::v1::{AttachRequest, AttachResponse};
use orlop_cri_server::sessions;

use crate::engine::Engine;
use crate::error::{Error, Result};

/// Handles the `Attach` call.
pub async fn call(Engine(node): &Engine, request: AttachRequest) -> Result<AttachResponse> {
    sessions::check_attach(&request).map_err(Error::from)?;
    let container = node.containers.running(&request.container_id)?;
    let tty = container.config.tty;
    let answer = sessions::attach(&*node.streams()?, &request, container.id.to_string(), tty);
    Ok(answer.map_err(Error::from)?)
}
