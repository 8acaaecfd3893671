//! `ReopenContainerLog`: opens a new log file after the old one was renamed.

use orlop_cri_api::v1::{ReopenContainerLogRequest, ReopenContainerLogResponse};

use crate::error::{Error, Result};
use crate::log::{From, Source};
use crate::shim::Shim;
use crate::{clock, find, labels};

pub(crate) async fn call(
    shim: &Shim,
    request: ReopenContainerLogRequest,
) -> Result<ReopenContainerLogResponse> {
    let found = find::running_container(&shim.docker, &request.container_id).await?;
    let path = found
        .config
        .labels
        .get(labels::LOG_PATH)
        .map_or("", String::as_str);
    if path.is_empty() {
        let problem = format!("container {} has no log file", found.id);
        return Err(Error::Precondition(problem).into());
    }
    if !shim.logs.reopen(&found.id).await? {
        // Until now the log was cri-dockerd's symlink to the engine's log.
        let source = Source {
            id: found.id.clone(),
            path: path.into(),
            terminal: found.config.tty,
        };
        shim.logs.follow(source, From::Time(clock::now())).await?;
    }
    Ok(ReopenContainerLogResponse {})
}
