//! `ContainerStatus`: returns the status of one container.

use std::collections::HashMap;

use orlop_cri_api::v1::{ContainerStatusRequest, ContainerStatusResponse};
use serde_json::{Value, json};

use crate::blocking;
use crate::engine::Engine;
use crate::error::Result;
use crate::record::container::Container;
use crate::record::messages::container_status;
use crate::record::spec_file;

/// Handles the `ContainerStatus` call.
pub async fn call(
    Engine(node): &Engine,
    request: ContainerStatusRequest,
) -> Result<ContainerStatusResponse> {
    let container = node.containers.visible(&request.container_id)?;
    let info = if request.verbose {
        info(&container).await
    } else {
        HashMap::new()
    };
    Ok(ContainerStatusResponse {
        status: Some(container_status(&container)),
        info,
    })
}

async fn info(container: &Container) -> HashMap<String, String> {
    let bundle = container.bundle.clone();
    let spec: Value = blocking(move || spec_file::read_as(&bundle))
        .await
        .unwrap_or_default();
    let info = json!({
        "sandboxID": container.pod.id.as_str(),
        "pid": container.now().pid.unwrap_or(0),
        "directory": container.dir,
        "bundle": container.bundle,
        "runtimeSpec": spec,
    });
    HashMap::from([("info".to_owned(), info.to_string())])
}
