//! `Attach`: a URL under which a container's own streams can be joined, once and soon.

use orlop_cri_api::v1::{AttachRequest, AttachResponse};
use orlop_cri_server::sessions;

use crate::engine::Engine;
use crate::error::{Error, Result};

/// Answers the call.
pub async fn call(Engine(node): &Engine, request: AttachRequest) -> Result<AttachResponse> {
    sessions::check_attach(&request).map_err(Error::from)?;
    let container = node.containers.running(&request.container_id)?;
    let tty = container.config.tty;
    let answer = sessions::attach(&*node.streams()?, &request, container.id.to_string(), tty);
    Ok(answer.map_err(Error::from)?)
}
