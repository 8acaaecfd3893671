//! `ListNetworks`: returns the networks that pods are attached to.

use orlop_cri_api::extensions::{ConfiguredNetwork, ListNetworksRequest, ListNetworksResponse};
use orlop_network::Status;

use crate::engine::Engine;
use crate::error::{Error, Result};

/// Handles the `ListNetworks` call.
pub async fn call(Engine(node): &Engine, _: ListNetworksRequest) -> Result<ListNetworksResponse> {
    let attached = node.networks.list().await.map_err(|source| {
        let doing = "listing network attachments".into();
        Error::Network { doing, source }
    })?;
    let pods = |name: &str| {
        let has = |entry: &&orlop_network::JournalEntry| {
            entry.networks.iter().any(|network| network.name == name)
        };
        u32::try_from(attached.iter().filter(has).count()).unwrap_or(u32::MAX)
    };
    let networks = node.networks.describe().await.into_iter();
    let mut answer = ListNetworksResponse {
        networks: networks
            .map(|network| ConfiguredNetwork {
                pods: pods(&network.name),
                name: network.name,
                cni_version: network.cni_version,
                plugins: network.plugins,
                in_process: network.in_process,
            })
            .collect(),
        conf_dir: node.networks.conf_dir().to_string_lossy().into_owned(),
        ..Default::default()
    };
    match node.networks.status().await {
        Status::Ready { warnings } => {
            answer.ready = true;
            answer.warnings = warnings;
        }
        Status::NotReady { reason, message } => {
            reason.clone_into(&mut answer.reason);
            answer.message = message;
        }
    }
    Ok(answer)
}
