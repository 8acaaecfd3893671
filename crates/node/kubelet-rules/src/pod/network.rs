//! Host names and DNS in the pod specification.

use serde::Deserialize;

use super::nullable::nullable;

/// How a pod resolves names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub enum DnsPolicy {
    /// Use the cluster's servers, except for host network pods.
    #[default]
    ClusterFirst,
    /// Use the cluster's servers, for host network pods too.
    ClusterFirstWithHostNet,
    /// Use the node's configuration.
    Default,
    /// Use only the pod's own configuration.
    None,
}

/// The pod's own DNS settings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct PodDns {
    /// Servers.
    #[serde(default, deserialize_with = "nullable")]
    pub nameservers: Vec<String>,
    /// Domains to search.
    #[serde(default, deserialize_with = "nullable")]
    pub searches: Vec<String>,
    /// Options such as `ndots`.
    #[serde(default, deserialize_with = "nullable")]
    pub options: Vec<DnsOption>,
}

/// An option of the resolver.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct DnsOption {
    /// Its name.
    #[serde(default, deserialize_with = "nullable")]
    pub name: String,
    /// Its value.
    #[serde(default)]
    pub value: Option<String>,
}

/// Additional names for an address in the pod's hosts file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct HostAlias {
    /// The address.
    #[serde(default, deserialize_with = "nullable")]
    pub ip: String,
    /// Its names.
    #[serde(default, deserialize_with = "nullable")]
    pub hostnames: Vec<String>,
}

/// A Secret with registry credentials.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct PullSecret {
    /// Its name.
    #[serde(default, deserialize_with = "nullable")]
    pub name: String,
}
