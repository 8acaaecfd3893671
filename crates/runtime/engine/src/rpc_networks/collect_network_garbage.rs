//! `CollectNetworkGarbage`: releases network attachments that belong to no pod.

use std::sync::Arc;

use orlop_cri_api::extensions::{
    CollectNetworkGarbageRequest, CollectNetworkGarbageResponse, FailedRelease, ReleasedAttachment,
};
use orlop_network::Orphan;

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::pod::network_gc;

/// Handles the `CollectNetworkGarbage` call.
pub async fn call(
    Engine(node): &Engine,
    request: CollectNetworkGarbageRequest,
) -> Result<CollectNetworkGarbageResponse> {
    let orphans = node.networks.orphans(network_gc::has_pod(node)).await;
    let orphans = orphans.map_err(|source| Error::Network {
        doing: "listing network attachments that belong to no pod".into(),
        source,
    })?;
    if request.dry_run {
        return Ok(CollectNetworkGarbageResponse {
            released: orphans.into_iter().map(released).collect(),
            failed: Vec::new(),
        });
    }
    let collecting = {
        let node = Arc::clone(node);
        async move { network_gc::collect(&node).await }
    };
    let report = node.finish(collecting).await?;
    let known = |id: &str| {
        let found = orphans.iter().find(|orphan| orphan.id == id);
        let unknown = || Orphan {
            id: id.to_owned(),
            ..Orphan::default()
        };
        found.cloned().unwrap_or_else(unknown)
    };
    let put_off = report.put_off.into_iter().map(|network| {
        let problem = "pods are constantly attached or detached; try again later";
        (network, problem.to_owned())
    });
    let failed = report.failed.into_iter().chain(put_off);
    Ok(CollectNetworkGarbageResponse {
        released: report
            .released
            .iter()
            .map(|id| released(known(id)))
            .collect(),
        failed: failed
            .map(|(id, problem)| FailedRelease { id, problem })
            .collect(),
    })
}

fn released(orphan: Orphan) -> ReleasedAttachment {
    ReleasedAttachment {
        pod_sandbox_id: orphan.id,
        networks: orphan.networks,
        ips: orphan.ips.iter().map(ToString::to_string).collect(),
    }
}
