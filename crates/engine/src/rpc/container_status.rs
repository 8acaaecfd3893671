//! `ContainerStatus`: one container.

use std::collections::HashMap;

use orlop_cri::v1::{ContainerStatusRequest, ContainerStatusResponse};
use serde_json::{Value, json};

use crate::container::Container;
use crate::engine::Engine;
use crate::error::Result;
use crate::messages::container_status;

/// Answers the call.
pub async fn call(
    engine: &Engine,
    request: ContainerStatusRequest,
) -> Result<ContainerStatusResponse> {
    let container = engine.visible_container(&request.container_id)?;
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
    let spec = tokio::fs::read(container.bundle.join("config.json"))
        .await
        .ok();
    let spec: Value = spec
        .and_then(|text| serde_json::from_slice(&text).ok())
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
