//! `ContainerStatus`: the full status of a container.

use std::collections::HashMap;

use orlop_cri_api::v1::{ContainerStatusRequest, ContainerStatusResponse};
use serde_json::json;

use crate::docker::types::Container;
use crate::error::{Error, Result};
use crate::shim::Shim;
use crate::{find, labels, view};

pub(crate) async fn call(
    shim: &Shim,
    request: ContainerStatusRequest,
) -> Result<ContainerStatusResponse> {
    let found = find::container(&shim.docker, &request.container_id).await?;
    if !found.state.running {
        // A client that sees the container's end finds its whole log.
        shim.logs.settle(&found.id).await;
    }
    let image = match shim.docker.image(&found.image).await {
        Ok(image) => Some(image),
        // Removed by force meanwhile.
        Err(error) if error.is_not_found() => None,
        Err(error) => {
            let doing = format!("inspecting the image of container {}", found.id);
            return Err(Error::engine(doing)(error).into());
        }
    };
    Ok(ContainerStatusResponse {
        info: if request.verbose {
            info(&found)
        } else {
            HashMap::new()
        },
        status: Some(view::container_status(&found, image.as_ref())),
    })
}

fn info(found: &Container) -> HashMap<String, String> {
    let mut config = found.clone();
    // The environment may contain secrets.
    config.config.env.clear();
    let info = json!({
        "sandboxID": found.config.labels.get(labels::SANDBOX_ID),
        "pid": found.state.pid,
        "config": config,
    });
    HashMap::from([("info".to_owned(), info.to_string())])
}
