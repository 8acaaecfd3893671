//! Networks and their allocated addresses.

use std::collections::HashMap;

use orlop_cri_api::client::Connection;
use orlop_cri_api::extensions::{ListAttachmentsRequest, ListNetworksRequest, PodAttachment};
use serde_json::{Value, json};

use crate::asked::{Told, own};
use crate::bounded::{MOST, MOST_PODS, cut, texts};

/// Size limit of a record.
const LARGEST: usize = 1 << 20;

/// Maximum depth of the search for subnets.
const DEEPEST: usize = 16;

/// Returns the networks that orlop reports.
pub(crate) async fn networks(cri: &Connection) -> Told {
    let mut client = cri.orlop_networks();
    let networks = own(client.list_networks(ListNetworksRequest {})).await?;
    let request = ListAttachmentsRequest {
        pod_sandbox_id: String::new(),
        verbose: true,
    };
    let attachments = own(client.list_attachments(request)).await?.attachments;
    let attachments = &attachments[..attachments.len().min(MOST_PODS)];
    let mut given: HashMap<&str, Vec<Value>> = HashMap::new();
    let mut subnets: HashMap<&str, Vec<String>> = HashMap::new();
    for attachment in attachments {
        for (place, to) in attachment.networks.iter().take(MOST).enumerate() {
            let given = given.entry(&to.network).or_default();
            given.extend(addresses(attachment, place, &to.interface));
            let known = subnets.entry(&to.network).or_default();
            // Each pod's record has the same subnets.
            if known.is_empty() && attachment.record.len() <= LARGEST {
                let record =
                    serde_json::from_slice(attachment.record.as_bytes()).unwrap_or_default();
                find_subnets(&record, &to.network, false, DEEPEST, known);
            }
        }
    }
    let told = networks.networks.iter().take(MOST).map(|network| {
        let name = network.name.as_str();
        json!({
            "name": cut(name),
            "cni_version": cut(&network.cni_version),
            "plugins": texts(&network.plugins),
            "in_process": network.in_process,
            "pods": network.pods,
            "subnets": texts(&subnets.remove(name).unwrap_or_default()),
            "given": given.remove(name).unwrap_or_default(),
        })
    });
    let told: Vec<Value> = told.collect();
    Ok(json!({
        "networks": told,
        "ready": networks.ready,
        "reason": cut(&networks.reason),
        "message": cut(&networks.message),
        "warnings": texts(&networks.warnings),
        "conf_dir": cut(&networks.conf_dir),
    }))
}

/// Returns addresses of an attachment. The pod's own addresses belong to its first, primary network.
fn addresses(attachment: &PodAttachment, place: usize, interface: &str) -> Vec<Value> {
    let one = |ip: Option<&str>| {
        json!({
            "ip": ip.map(cut),
            "pod": attachment.pod_sandbox_id,
            "interface": cut(interface),
        })
    };
    if place > 0 || attachment.ips.is_empty() {
        return vec![one(None)];
    }
    let ips = attachment.ips.iter().take(MOST);
    ips.map(|ip| one(Some(ip))).collect()
}

/// Collects the values of `subnet` within the object of the network.
fn find_subnets(value: &Value, network: &str, within: bool, depth: usize, found: &mut Vec<String>) {
    let Some(depth) = depth.checked_sub(1) else {
        return;
    };
    match value {
        Value::Object(all) => {
            let within = within || all.get("name").is_some_and(|name| name == network);
            for (key, value) in all {
                let within = within || key == network;
                match value.as_str() {
                    Some(subnet) if within && key == "subnet" => {
                        if found.len() < MOST && !found.iter().any(|known| known == subnet) {
                            found.push(cut(subnet).to_owned());
                        }
                    }
                    _ => find_subnets(value, network, within, depth, found),
                }
            }
        }
        Value::Array(all) => {
            for value in all {
                find_subnets(value, network, within, depth, found);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subnets_are_those_of_the_network() {
        let record = json!({
            "networks": [
                { "name": "other", "ipam": { "subnet": "10.9.0.0/16" } },
                { "name": "pods", "plugins": [{ "ipam": { "ranges": [[{ "subnet": "10.1.0.0/16" }]] } }] },
                { "name": "pods", "plugins": [{ "ipam": { "subnet": "10.1.0.0/16" } }] },
            ],
        });
        let mut found = Vec::new();
        find_subnets(&record, "pods", false, DEEPEST, &mut found);
        assert_eq!(found, ["10.1.0.0/16"]);
    }
}
