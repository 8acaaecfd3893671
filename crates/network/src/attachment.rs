//! What the caller says about a pod that wants a network.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::cni::Dns;
use crate::{Bandwidth, Cidr, MacAddress};

/// A pod that is to be attached to the node's networks.
///
/// Whoever stores it (it serialises) can detach the pod with it at any later
/// time, whatever became of the daemon in between.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Attachment {
    /// The pod's identity towards plugins.
    pub id: ContainerId,
    /// The pod's name in Kubernetes.
    pub pod_name: String,
    /// The pod's namespace in Kubernetes.
    pub pod_namespace: String,
    /// The pod's UID in Kubernetes.
    pub pod_uid: String,
    /// The network namespace, as a path plugins can open.
    pub netns: PathBuf,
    /// The interface made in it; `eth0` unless told otherwise.
    #[serde(default)]
    pub interface: InterfaceName,
    /// Ports of the node that lead to the pod.
    #[serde(default)]
    pub port_mappings: Vec<PortMapping>,
    /// Traffic limits.
    #[serde(default)]
    pub bandwidth: Option<Bandwidth>,
    /// The pod's DNS settings, for plugins that want to know.
    #[serde(default)]
    pub dns: Option<Dns>,
    /// Addresses asked for.
    #[serde(default)]
    pub ips: Vec<Cidr>,
    /// Ethernet address asked for.
    #[serde(default)]
    pub mac: Option<MacAddress>,
    /// Names asked for.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// InfiniBand GUID asked for.
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
    /// Another configuration directory than the node's (a runtime handler's).
    #[serde(default)]
    pub conf_dir: Option<PathBuf>,
}

impl Attachment {
    /// An attachment with nothing but the necessary.
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
}

/// A port of the node that leads to the pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PortMapping {
    /// The node's port.
    pub host_port: u16,
    /// The pod's port.
    pub container_port: u16,
    /// The protocol; CNI writes it in lower case.
    pub protocol: Protocol,
    /// Only this address of the node; all of them if absent.
    #[serde(
        rename = "hostIP",
        default,
        deserialize_with = "address_or_empty",
        skip_serializing_if = "Option::is_none"
    )]
    pub host_ip: Option<IpAddr>,
}

/// Other runtimes write an empty text for no address, and their cached results are read on.
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
    /// The protocol's name in lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Sctp => "sctp",
        }
    }

    /// The protocol's number in an IP header.
    pub fn number(self) -> u8 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
            Self::Sctp => 132,
        }
    }
}

/// An identity as CNI allows it: a letter or digit, then letters, digits,
/// `_`, `.` and `-`. It becomes part of file names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ContainerId(String);

/// The name of a network interface: 1 to 15 bytes, no `/`, `:` or white space.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct InterfaceName(String);

/// A name that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{value:?} cannot be {what}: {rule}")]
pub struct InvalidName {
    what: &'static str,
    value: String,
    rule: &'static str,
}

impl ContainerId {
    /// The identity as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl InterfaceName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for InterfaceName {
    fn default() -> Self {
        Self("eth0".to_owned())
    }
}

/// Whether `text` may name a network or a container: it becomes part of file names.
pub(crate) fn is_cni_name(text: &str) -> bool {
    text.len() <= 128
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c))
}

impl FromStr for ContainerId {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if is_cni_name(text) {
            return Ok(Self(text.to_owned()));
        }
        Err(InvalidName {
            what: "a pod's identity",
            value: text.chars().take(64).collect(),
            rule: "it must start with a letter or digit and contain only letters, digits, '_', '.' \
                   and '-'",
        })
    }
}

impl FromStr for InterfaceName {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // The kernel's dev_valid_name(), IFNAMSIZ being 16 with the final NUL.
        let bad = |c: char| c == '/' || c == ':' || c.is_whitespace() || c == '\0';
        if (1..=15).contains(&text.len()) && text != "." && text != ".." && !text.contains(bad) {
            return Ok(Self(text.to_owned()));
        }
        Err(InvalidName {
            what: "an interface name",
            value: text.chars().take(64).collect(),
            rule: "it must have 1 to 15 bytes and no '/', ':' or white space",
        })
    }
}

impl TryFrom<String> for ContainerId {
    type Error = InvalidName;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl TryFrom<String> for InterfaceName {
    type Error = InvalidName;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<ContainerId> for String {
    fn from(id: ContainerId) -> Self {
        id.0
    }
}

impl From<InterfaceName> for String {
    fn from(name: InterfaceName) -> Self {
        name.0
    }
}

impl fmt::Display for ContainerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for InterfaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_never_leave_their_directory() {
        for text in ["", "..", "../x", "a/b", "-x", ".x", "a b", "a\n", "\u{e9}"] {
            assert!(text.parse::<ContainerId>().is_err(), "{text:?}");
        }
        assert!("3a-b_c.d".parse::<ContainerId>().is_ok());
    }

    #[test]
    fn interface_names_follow_the_kernel() {
        for text in ["", ".", "..", "a/b", "a:1", "sixteen-bytes-xx", "a b"] {
            assert!(text.parse::<InterfaceName>().is_err(), "{text:?}");
        }
        assert!("eth0".parse::<InterfaceName>().is_ok());
    }

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
}
