//! `PodSandboxStatus`: the full status of a sandbox.

use std::collections::HashMap;

use orlop_cri_api::v1::{PodSandboxStatusRequest, PodSandboxStatusResponse};
use serde_json::json;

use crate::error::Result;
use crate::shim::Shim;
use crate::{clock, events, find, view};

pub(crate) async fn call(
    shim: &Shim,
    request: PodSandboxStatusRequest,
) -> Result<PodSandboxStatusResponse> {
    let found = find::sandbox(&shim.docker, &request.pod_sandbox_id).await?;
    let default_runtime = shim.info.get().await?.default_runtime.clone();
    let addresses = shim.network.addresses(&found).await;
    let info = if request.verbose {
        let info = json!({ "pid": found.state.pid, "image": found.image, "config": found });
        HashMap::from([("info".to_owned(), info.to_string())])
    } else {
        HashMap::new()
    };
    Ok(PodSandboxStatusResponse {
        containers_statuses: events::statuses_of(&shim.docker, &found.id).await?,
        status: Some(view::sandbox_status(&found, &addresses, &default_runtime)),
        info,
        timestamp: clock::now(),
    })
}
