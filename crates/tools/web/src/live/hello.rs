//! Identity and capabilities of the endpoint.

use orlop_cri_api::client::Connection;
use orlop_cri_api::extensions::{ListNetworksRequest, ListTracesRequest};
use orlop_cri_api::v1::{StatusResponse, VersionResponse};
use serde_json::{Value, json};

use super::hub::Hub;
use super::{machine, pods::told_handlers};
use crate::asked::{AskError, own};
use crate::bounded::{MOST, cut};

/// Optional capabilities of the endpoint.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Can {
    pub(super) traces: bool,
    pub(super) networks: bool,
    pub(super) disk: bool,
    /// Assumed to be supported until a query fails.
    pub(super) usage: bool,
    pub(super) events: bool,
    /// Whether it is orlop: one of its services implies the others.
    pub(super) is_ours: bool,
}

impl Can {
    /// Probes the optional capabilities.
    pub(super) async fn find(cri: &Connection) -> Result<Self, AskError> {
        let traces = ListTracesRequest {
            limit: 1,
            ..ListTracesRequest::default()
        };
        let mut inspection = cri.orlop_inspection();
        let traces = knows(own(inspection.list_traces(traces)).await)?;
        let mut networks = cri.orlop_networks();
        let networks = knows(own(networks.list_networks(ListNetworksRequest {})).await)?;
        let disk = cri.images().image_fs_info().await.map_err(AskError::from);
        Ok(Self {
            traces,
            networks,
            disk: knows(disk)?,
            usage: true,
            events: true,
            is_ours: traces,
        })
    }
}

/// Returns whether the endpoint knows a call.
fn knows<T>(answer: Result<T, AskError>) -> Result<bool, AskError> {
    match answer {
        Err(error) if error.is_gone() => Err(error),
        Err(error) => Ok(!error.is_unknown()),
        Ok(_) => Ok(true),
    }
}

/// Formats the first event for a page.
pub(super) fn hello(hub: &Hub, version: &VersionResponse, can: Can) -> String {
    let ours = "only orlop reports this information";
    let missing = [
        (
            can.usage,
            "usage",
            "the endpoint reports no resource usage of pods or containers",
        ),
        (
            can.events,
            "events",
            "the endpoint sends no container events; the server polls it every two seconds",
        ),
        (can.traces, "traces", ours),
        (can.is_ours, "pulls", ours),
        (can.networks, "networks", ours),
        (can.is_ours, "doctor", ours),
        (
            can.disk,
            "disk",
            "the endpoint does not report the usage of its image file system",
        ),
    ];
    let missing = missing.iter().filter(|(there, ..)| !there);
    let missing = missing.map(|(_, what, why)| json!({ "what": what, "why": why }));
    let hello = json!({
        "endpoint": hub.cri.endpoint().to_string(),
        "host": machine::name(),
        "runtime": {
            "name": cut(&version.runtime_name),
            "version": cut(&version.runtime_version),
            "api": cut(&version.runtime_api_version),
        },
        "interval_ms": hub.interval.as_millis() as u64,
        "cores": machine::cores(),
        "memory_total": machine::memory().map(|(total, _)| total),
        "can": {
            "usage": can.usage,
            "events": can.events,
            "traces": can.traces,
            "pulls": can.is_ours,
            "networks": can.networks,
            "disk": can.disk,
            "settings": true,
            "doctor": can.is_ours,
            "manifests": hub.has_manifests,
            "environment": hub.shows_environment,
        },
        "missing": missing.collect::<Vec<_>>(),
    });
    hello.to_string()
}

/// Formats the state of the node, with the findings of doctor if available.
pub(super) fn node(status: &StatusResponse, findings: Option<&Value>) -> String {
    let conditions = status.status.iter().flat_map(|status| &status.conditions);
    let conditions = conditions.take(MOST).map(|condition| {
        json!({
            "name": cut(&condition.r#type),
            "ok": condition.status,
            "reason": cut(&condition.reason),
            "message": cut(&condition.message),
        })
    });
    let node = json!({
        "conditions": conditions.collect::<Vec<_>>(),
        "handlers": told_handlers(&status.runtime_handlers),
        "findings": findings,
    });
    node.to_string()
}
