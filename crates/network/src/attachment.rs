//! Network settings of a pod, as the caller passes them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::cni::{Dns, RuntimeArgs};
use crate::{Bandwidth, Cidr, ContainerId, InterfaceName, MacAddress};

/// A pod that is to be attached to the node's networks.
///
/// The type can be serialised. A caller that stores it can detach the pod at any later time, even after a restart of
/// the daemon.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Attachment {
    /// The pod's ID, as plugins see it.
    pub id: ContainerId,
    /// The pod's name in Kubernetes.
    pub pod_name: String,
    /// The pod's namespace in Kubernetes.
    pub pod_namespace: String,
    /// The pod's UID in Kubernetes.
    pub pod_uid: String,
    /// The network namespace, as a path plugins can open.
    pub netns: PathBuf,
    /// The name of the interface in the pod; `eth0` by default.
    #[serde(default)]
    pub interface: InterfaceName,
    /// Host ports that lead to the pod.
    #[serde(default)]
    pub port_mappings: Vec<PortMapping>,
    /// Traffic limits.
    #[serde(default)]
    pub bandwidth: Option<Bandwidth>,
    /// The pod's DNS settings, for plugins that use them.
    #[serde(default)]
    pub dns: Option<Dns>,
    /// Requested IP addresses.
    #[serde(default)]
    pub ips: Vec<Cidr>,
    /// Requested Ethernet address.
    #[serde(default)]
    pub mac: Option<MacAddress>,
    /// Requested alias names.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// Requested InfiniBand GUID.
    #[serde(default)]
    pub infiniband_guid: Option<String>,
    /// The pod's cgroup.
    #[serde(default)]
    pub cgroup_path: Option<String>,
    /// The pod's annotations.
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
    /// More `KEY=value` pairs for `CNI_ARGS`.
    #[serde(default)]
    pub extra_args: BTreeMap<String, String>,
    /// The configuration directory of a runtime handler, if it differs from the node's.
    #[serde(default)]
    pub conf_dir: Option<PathBuf>,
}

impl Attachment {
    /// Creates an attachment with only the required settings.
    pub fn new(id: ContainerId, netns: impl Into<PathBuf>) -> Self {
        Self {
            id,
            pod_name: String::new(),
            pod_namespace: String::new(),
            pod_uid: String::new(),
            netns: netns.into(),
            interface: InterfaceName::default(),
            port_mappings: Vec::new(),
            bandwidth: None,
            dns: None,
            ips: Vec::new(),
            mac: None,
            aliases: Vec::new(),
            infiniband_guid: None,
            cgroup_path: None,
            annotations: BTreeMap::new(),
            extra_args: BTreeMap::new(),
            conf_dir: None,
        }
    }

    /// Returns `CNI_ARGS` and the capability arguments, in the form that Kubernetes runtimes pass them.
    pub(crate) fn runtime_args(&self) -> RuntimeArgs {
        let mut cni_args = vec![
            ("IgnoreUnknown".to_owned(), "1".to_owned()),
            ("K8S_POD_NAMESPACE".to_owned(), self.pod_namespace.clone()),
            ("K8S_POD_NAME".to_owned(), self.pod_name.clone()),
            ("K8S_POD_INFRA_CONTAINER_ID".to_owned(), self.id.to_string()),
            ("K8S_POD_UID".to_owned(), self.pod_uid.clone()),
        ];
        cni_args.extend(
            self.extra_args
                .iter()
                .map(|(key, value)| (key.clone(), value.clone())),
        );
        // A value with the separator would inject further arguments.
        cni_args.retain(|(key, value)| !key.contains([';', '=']) && !value.contains(';'));
        RuntimeArgs {
            cni_args,
            capability_args: capability_args(self),
        }
    }
}

fn capability_args(pod: &Attachment) -> BTreeMap<String, Value> {
    let mut args = BTreeMap::new();
    let mut put = |name: &str, value: Value| args.insert(name.to_owned(), value);
    if !pod.port_mappings.is_empty() {
        put("portMappings", json!(pod.port_mappings));
    }
    if let Some(bandwidth) = pod.bandwidth {
        put("bandwidth", json!(bandwidth));
    }
    if let Some(dns) = &pod.dns {
        // The capability's keys differ from those of a result's DNS section.
        put(
            "dns",
            json!({ "servers": dns.nameservers, "searches": dns.search, "options": dns.options }),
        );
    }
    if !pod.ips.is_empty() {
        put("ips", json!(pod.ips));
    }
    if let Some(mac) = pod.mac {
        put("mac", json!(mac));
    }
    if !pod.aliases.is_empty() {
        put("aliases", json!(pod.aliases));
    }
    if let Some(guid) = &pod.infiniband_guid {
        put("infinibandGUID", json!(guid));
    }
    if let Some(path) = &pod.cgroup_path {
        put("cgroupPath", json!(path));
    }
    if !pod.annotations.is_empty() {
        put("io.kubernetes.cri.pod-annotations", json!(pod.annotations));
    }
    args
}

/// A host port that leads to the pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PortMapping {
    /// The host port.
    pub host_port: u16,
    /// The port in the pod.
    pub container_port: u16,
    /// The protocol; CNI writes it in lower case.
    pub protocol: Protocol,
    /// The node address on which the port is open; all addresses if `None`.
    #[serde(
        rename = "hostIP",
        default,
        deserialize_with = "address_or_empty",
        skip_serializing_if = "Option::is_none"
    )]
    pub host_ip: Option<IpAddr>,
}

/// Other runtimes write an empty string for "no address"; their cached results must stay readable.
fn address_or_empty<'de, D>(deserializer: D) -> Result<Option<IpAddr>, D::Error>
where
    D: serde::Deserializer<'de>,
{
    let text = Option::<String>::deserialize(deserializer)?.unwrap_or_default();
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(serde::de::Error::custom)
}

/// A transport protocol that has ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// TCP.
    #[serde(alias = "TCP")]
    Tcp,
    /// UDP.
    #[serde(alias = "UDP")]
    Udp,
    /// SCTP.
    #[serde(alias = "SCTP")]
    Sctp,
}

impl Protocol {
    /// Returns the protocol's name in lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Sctp => "sctp",
        }
    }

    /// Returns the protocol's number in an IP header.
    pub fn number(self) -> u8 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
            Self::Sctp => 132,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_mappings_are_spelled_as_plugins_read_them() {
        let mapping = PortMapping {
            host_port: 8080,
            container_port: 80,
            protocol: Protocol::Tcp,
            host_ip: Some("127.0.0.1".parse().unwrap()),
        };
        assert_eq!(
            serde_json::to_value(&mapping).unwrap(),
            serde_json::json!({"hostPort": 8080, "containerPort": 80, "protocol": "tcp", "hostIP": "127.0.0.1"})
        );
    }

    #[test]
    fn an_empty_address_of_a_mapping_is_none() {
        let read = |address: &str| {
            serde_json::from_str::<PortMapping>(&format!(
                r#"{{"hostPort":8080,"containerPort":80,"protocol":"tcp"{address}}}"#
            ))
            .map(|mapping| mapping.host_ip)
        };
        assert_eq!(read("").unwrap(), None);
        assert_eq!(read(r#","hostIP":"""#).unwrap(), None);
        assert!(read(r#","hostIP":"127.0.0.1""#).unwrap().is_some());
        assert!(read(r#","hostIP":"localhost""#).is_err());
    }

    #[test]
    fn kubernetes_arguments_in_their_order() {
        let mut pod = Attachment::new("abc".parse().unwrap(), "/x");
        pod.pod_name = "web".into();
        pod.pod_namespace = "default".into();
        pod.pod_uid = "u-1".into();
        pod.extra_args
            .insert("EVIL".into(), "1;K8S_POD_NAME=other".into());
        assert_eq!(
            pod.runtime_args().cni_args_text(),
            "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=web;\
             K8S_POD_INFRA_CONTAINER_ID=abc;K8S_POD_UID=u-1"
        );
        assert!(pod.runtime_args().capability_args.is_empty());
    }
}
