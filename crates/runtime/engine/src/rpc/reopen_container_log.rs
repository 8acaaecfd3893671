//! `ReopenContainerLog`: opens a new log file after the old one was rotated.

use orlop_cri_api::v1::{ReopenContainerLogRequest, ReopenContainerLogResponse};

use crate::container::process;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::record::container::Phase;

/// Handles the `ReopenContainerLog` call.
pub async fn call(
    Engine(node): &Engine,
    request: ReopenContainerLogRequest,
) -> Result<ReopenContainerLogResponse> {
    let container = node.containers.find(&request.container_id)?;
    if container.phase() != Phase::Running {
        let problem = format!(
            "container {} is not running; its log is not open",
            container.id
        );
        return Err(Error::Precondition(problem).into());
    }
    process::reopen_log(&container).await?;
    Ok(ReopenContainerLogResponse {})
}
