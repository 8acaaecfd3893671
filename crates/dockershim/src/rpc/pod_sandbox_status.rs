//! `PodSandboxStatus`: one sandbox in full.

use std::collections::HashMap;

use orlop_cri_api::v1::{PodSandboxStatusRequest, PodSandboxStatusResponse};
use serde_json::json;

use crate::error::Result;
use crate::shim::Shim;
use crate::{clock, events, find, network, view};

/// Answers the call.
pub(crate) async fn call(
    shim: &Shim,
    request: PodSandboxStatusRequest,
) -> Result<PodSandboxStatusResponse> {
    let found = find::sandbox(shim, &request.pod_sandbox_id).await?;
    let default_runtime = shim.info().await?.default_runtime.clone();
    let addresses = network::addresses(shim, &found).await;
    let info = if request.verbose {
        let info = json!({ "pid": found.state.pid, "image": found.image, "config": found });
        HashMap::from([("info".to_owned(), info.to_string())])
    } else {
        HashMap::new()
    };
    Ok(PodSandboxStatusResponse {
        containers_statuses: events::statuses_of(shim, &found.id).await?,
        status: Some(view::sandbox_status(&found, &addresses, &default_runtime)),
        info,
        timestamp: clock::now(),
    })
}
