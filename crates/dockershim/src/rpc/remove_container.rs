//! `RemoveContainer`: removes a container, by force if it runs. Idempotent.

use std::path::PathBuf;

use orlop_cri_api::v1::{RemoveContainerRequest, RemoveContainerResponse};

use crate::docker::Force;
use crate::error::{Error, Result};
use crate::shim::Shim;
use crate::{find, labels};

pub(crate) async fn call(
    shim: &Shim,
    request: RemoveContainerRequest,
) -> Result<RemoveContainerResponse> {
    let found = match find::container(&shim.docker, &request.container_id).await {
        Ok(found) => found,
        Err(error) if error.is_not_found() => return Ok(RemoveContainerResponse {}),
        Err(error) => return Err(error),
    };
    let id = &found.id;
    match shim.docker.remove_container(id, Force::Yes).await {
        Ok(()) => {}
        Err(error) if error.is_not_found() => {}
        // Another caller is removing it.
        Err(error) if error.is_conflict() && error.to_string().contains("already in progress") => {}
        Err(error) => {
            return Err(Error::engine(format!("removing container {id}"))(error).into());
        }
    }
    shim.logs.forget(id);
    shim.stats.forget(id);
    if let Some(path) = labels::own(&found.config.labels, labels::LOG_PATH) {
        remove_link(path).await;
    }
    Ok(RemoveContainerResponse {})
}

/// Removes a dangling symlink to the engine's own log. The kubelet removes log files of ours.
async fn remove_link(path: &str) {
    let path = PathBuf::from(path);
    let removing = orlop_pool::blocking(move || {
        if path.is_symlink() {
            let _ = std::fs::remove_file(path);
        }
    });
    let _ = removing.await;
}
