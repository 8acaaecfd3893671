//! A pod's names and name servers as they are wanted.

use serde::Deserialize;

use super::nullable::nullable;

/// How names are resolved in a pod.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub enum DnsPolicy {
    /// By the cluster's servers, unless the pod is on the node's network.
    #[default]
    ClusterFirst,
    /// By the cluster's servers, on the node's network too.
    ClusterFirstWithHostNet,
    /// As on the node.
    Default,
    /// As the pod says itself.
    None,
}

/// What a pod says itself of name resolution.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct PodDns {
    /// Servers.
    #[serde(default, deserialize_with = "nullable")]
    pub nameservers: Vec<String>,
    /// Domains to search.
    #[serde(default, deserialize_with = "nullable")]
    pub searches: Vec<String>,
    /// Options, as `ndots`.
    #[serde(default, deserialize_with = "nullable")]
    pub options: Vec<DnsOption>,
}

/// One option of the resolver.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct DnsOption {
    /// Its name.
    #[serde(default, deserialize_with = "nullable")]
    pub name: String,
    /// Its value.
    #[serde(default)]
    pub value: Option<String>,
}

/// Names for an address in the pod's hosts file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct HostAlias {
    /// The address.
    #[serde(default, deserialize_with = "nullable")]
    pub ip: String,
    /// Its names.
    #[serde(default, deserialize_with = "nullable")]
    pub hostnames: Vec<String>,
}

/// A Secret with credentials for registries.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct PullSecret {
    /// Its name.
    #[serde(default, deserialize_with = "nullable")]
    pub name: String,
}
