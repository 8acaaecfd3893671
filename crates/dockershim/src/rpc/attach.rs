//! `Attach`: returns a short-lived, single-use URL for a container's own streams.

use orlop_cri_api::v1::{AttachRequest, AttachResponse};
use orlop_cri_server::sessions;

use crate::error::{Error, Result};
use crate::find;
use crate::shim::Shim;

pub(crate) async fn call(shim: &Shim, request: AttachRequest) -> Result<AttachResponse> {
    sessions::check_attach(&request).map_err(Error::from)?;
    let container = find::running_container(&shim.docker, &request.container_id).await?;
    let tty = container.config.tty;
    let answer = sessions::attach(&shim.streams, &request, container.id, tty);
    Ok(answer.map_err(Error::from)?)
}
