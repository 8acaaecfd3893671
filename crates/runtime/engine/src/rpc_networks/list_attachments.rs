//! `ListAttachments`: returns the pods' network attachments.

use orlop_cri_api::extensions::{
    AttachedTo, AttachmentState, HostPort, ListAttachmentsRequest, ListAttachmentsResponse,
    PodAttachment,
};
use orlop_network::{JournalEntry, Protocol};
use serde_json::json;

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::pod::network_gc;

/// Handles the `ListAttachments` call.
pub async fn call(
    Engine(node): &Engine,
    request: ListAttachmentsRequest,
) -> Result<ListAttachmentsResponse> {
    let entries = node.networks.list().await.map_err(|source| {
        let doing = "listing network attachments".into();
        Error::Network { doing, source }
    })?;
    let has_pod = network_gc::has_pod(node);
    let wanted = entries.iter().filter(|entry| {
        entry
            .attachment
            .id
            .as_str()
            .starts_with(&request.pod_sandbox_id)
    });
    let attachments = wanted
        .map(|entry| attachment(entry, has_pod(&entry.attachment.id), request.verbose))
        .collect();
    Ok(ListAttachmentsResponse { attachments })
}

fn attachment(entry: &JournalEntry, has_pod: bool, verbose: bool) -> PodAttachment {
    let asked = &entry.attachment;
    let state = match (&entry.result, has_pod) {
        (_, false) => AttachmentState::Orphaned,
        (None, true) => AttachmentState::Unfinished,
        (Some(_), true) => AttachmentState::Attached,
    };
    let host_ports = asked.port_mappings.iter().map(|mapping| HostPort {
        host_ip: mapping.host_ip.map(|ip| ip.to_string()).unwrap_or_default(),
        host_port: mapping.host_port.into(),
        container_port: mapping.container_port.into(),
        protocol: match mapping.protocol {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
            Protocol::Sctp => "sctp",
        }
        .to_owned(),
    });
    let networks = entry.networks.iter().map(|network| AttachedTo {
        network: network.name.clone(),
        interface: network.if_name.clone(),
    });
    PodAttachment {
        pod_sandbox_id: asked.id.to_string(),
        name: asked.pod_name.clone(),
        namespace: asked.pod_namespace.clone(),
        state: state.into(),
        networks: networks.collect(),
        ips: entry
            .result
            .iter()
            .flat_map(|result| result.ips.iter().map(ToString::to_string))
            .collect(),
        host_ports: host_ports.collect(),
        netns: asked.netns.to_string_lossy().into_owned(),
        record: if verbose {
            json!({
                "attachment": asked,
                "networks": entry.networks,
                "result": entry.result,
            })
            .to_string()
        } else {
            String::new()
        },
    }
}
