//! The network of an attached pod.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cni::{CniResult, Dns, Route, RuntimeArgs};
use crate::{Cidr, IpPreference};

/// A pod's network in serialisable form: the reported values, and all data needed to verify and undo it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PodNetwork {
    /// The pod's addresses; the primary one comes first.
    pub ips: Vec<IpAddr>,
    /// The interfaces in the pod's namespace.
    pub interfaces: Vec<PodInterface>,
    /// The routes.
    pub routes: Vec<Route>,
    /// DNS settings the network suggests.
    pub dns: Dns,
    /// The networks, with the plugins' raw results.
    pub networks: Vec<AttachedNetwork>,
}

/// An interface in the pod's namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodInterface {
    /// Its name.
    pub name: String,
    /// Its Ethernet address.
    pub mac: String,
    /// Its addresses.
    pub addresses: Vec<PodAddress>,
}

/// An address of an interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodAddress {
    /// The address.
    pub address: Cidr,
    /// Its gateway.
    pub gateway: Option<IpAddr>,
}

/// A network to which the pod is attached, as it was at that time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttachedNetwork {
    /// The network's name.
    pub name: String,
    /// The pod's interface.
    pub if_name: String,
    /// The network's configuration list.
    pub conf: Value,
    /// The arguments passed to the plugins.
    pub args: RuntimeArgs,
    /// The plugins' result; absent until ADD is finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// The number of plugins that ran, if ADD ended early; all of them if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ran: Option<usize>,
}

impl PodNetwork {
    /// Returns the pod's primary address.
    pub fn primary_ip(&self) -> Option<IpAddr> {
        self.ips.first().copied()
    }

    /// Combines the results of all networks; the first network's addresses come first.
    pub(crate) fn gather(
        networks: Vec<AttachedNetwork>,
        results: &[CniResult],
        preference: IpPreference,
    ) -> Self {
        let mut gathered = Self {
            ips: Vec::new(),
            interfaces: Vec::new(),
            routes: Vec::new(),
            dns: Dns::default(),
            networks,
        };
        for (network, result) in gathered.networks.iter().zip(results) {
            gathered
                .interfaces
                .extend(pod_interfaces(result, &network.if_name));
            gathered.routes.extend(result.routes.iter().cloned());
            if gathered.dns.is_empty() {
                gathered.dns = result.dns.clone();
            }
        }
        if let Some(first) = results.first() {
            gathered.ips = pod_addresses(first)
                .map(|ip| ip.address.address())
                .collect();
        }
        match preference {
            IpPreference::Cni => {}
            IpPreference::Ipv4 => gathered.ips.sort_by_key(|ip| !ip.is_ipv4()),
            IpPreference::Ipv6 => gathered.ips.sort_by_key(IpAddr::is_ipv4),
        }
        gathered
    }
}

/// Returns the pod's own addresses: those on an interface in its namespace, or without an interface.
pub(crate) fn pod_addresses(result: &CniResult) -> impl Iterator<Item = &crate::cni::IpConfig> {
    result.ips.iter().filter(|ip| {
        let interface = ip
            .interface
            .and_then(|i| result.interfaces.get(usize::try_from(i).ok()?));
        interface.is_none_or(|interface| !interface.sandbox.is_empty())
    })
}

fn pod_interfaces(result: &CniResult, if_name: &str) -> Vec<PodInterface> {
    let addresses = |wanted: Option<i64>| {
        result
            .ips
            .iter()
            .filter(move |ip| ip.interface == wanted)
            .map(|ip| PodAddress {
                address: ip.address,
                gateway: ip.gateway,
            })
            .collect::<Vec<_>>()
    };
    let mut interfaces: Vec<_> = result
        .interfaces
        .iter()
        .zip(0_i64..)
        .filter(|(interface, _)| !interface.sandbox.is_empty())
        .map(|(interface, index)| PodInterface {
            name: interface.name.clone(),
            mac: interface.mac.clone(),
            addresses: addresses(Some(index)),
        })
        .collect();
    let unassigned = addresses(None);
    if !unassigned.is_empty() {
        match interfaces
            .iter_mut()
            .find(|interface| interface.name == if_name)
        {
            Some(interface) => interface.addresses.extend(unassigned),
            None => interfaces.push(PodInterface {
                name: if_name.to_owned(),
                mac: String::new(),
                addresses: unassigned,
            }),
        }
    }
    interfaces
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cni::SpecVersion;
    use serde_json::json;

    fn gather(preference: IpPreference) -> PodNetwork {
        let result = json!({
            "interfaces": [{"name": "br0"}, {"name": "eth0", "sandbox": "/x", "mac": "m"}],
            "ips": [
                {"address": "fd00::2/64", "interface": 1},
                {"address": "10.0.0.2/24", "interface": 1, "gateway": "10.0.0.1"},
                {"address": "10.0.0.1/24", "interface": 0},
            ],
        });
        let parsed = CniResult::parse(&result, SpecVersion::V1_0_0).unwrap();
        let network = AttachedNetwork {
            name: "n".into(),
            if_name: "eth0".into(),
            conf: json!({}),
            args: RuntimeArgs::default(),
            result: Some(result),
            ran: None,
        };
        PodNetwork::gather(vec![network], &[parsed], preference)
    }

    #[test]
    fn the_primary_address_follows_the_preference() {
        let ips = |preference| {
            gather(preference)
                .ips
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        };
        assert_eq!(ips(IpPreference::Cni), ["fd00::2", "10.0.0.2"]);
        assert_eq!(ips(IpPreference::Ipv4), ["10.0.0.2", "fd00::2"]);
        assert_eq!(ips(IpPreference::Ipv6), ["fd00::2", "10.0.0.2"]);
    }

    #[test]
    fn only_the_pods_interfaces_are_reported_and_the_record_survives_storing() {
        let network = gather(IpPreference::Cni);
        assert_eq!(network.interfaces.len(), 1);
        assert_eq!(network.interfaces[0].addresses.len(), 2);
        let stored = serde_json::to_string(&network).unwrap();
        assert_eq!(
            serde_json::from_str::<PodNetwork>(&stored).unwrap(),
            network
        );
    }
}
