//! The pod specification.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::nullable::nullable;
use super::{
    Container, DnsPolicy, EphemeralContainer, HostAlias, ObjectMeta, PodDns, PodSecurityContext,
    PullSecret, ResourceList, Resources, RestartPolicy, Volume,
};

/// A pod with its metadata and specification.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Pod {
    /// The metadata.
    #[serde(default, deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    /// The specification.
    #[serde(default, deserialize_with = "nullable")]
    pub spec: PodSpec,
}

impl Pod {
    /// Whether the pod is being deleted.
    pub fn is_being_deleted(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }
}

/// The specification of a pod.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSpec {
    /// The regular containers.
    #[serde(default, deserialize_with = "nullable")]
    pub containers: Vec<Container>,
    /// Init containers, which run before them in order; sidecars among them keep running.
    #[serde(default, deserialize_with = "nullable")]
    pub init_containers: Vec<Container>,
    /// Ephemeral containers, which are added to a running pod for debugging.
    #[serde(default, deserialize_with = "nullable")]
    pub ephemeral_containers: Vec<EphemeralContainer>,
    /// When containers restart after they end.
    #[serde(default, deserialize_with = "nullable")]
    pub restart_policy: RestartPolicy,
    /// The termination grace period in seconds.
    #[serde(default)]
    pub termination_grace_period_seconds: Option<i64>,
    /// Use the node's network namespace.
    #[serde(default, deserialize_with = "nullable")]
    pub host_network: bool,
    /// Use the node's PID namespace.
    #[serde(default, rename = "hostPID", deserialize_with = "nullable")]
    pub host_pid: bool,
    /// Use the node's IPC namespace.
    #[serde(default, rename = "hostIPC", deserialize_with = "nullable")]
    pub host_ipc: bool,
    /// `false` requests a user namespace of its own.
    #[serde(default)]
    pub host_users: Option<bool>,
    /// Share a PID namespace between the containers.
    #[serde(default, deserialize_with = "nullable")]
    pub share_process_namespace: bool,
    /// The host name; the pod's name if empty.
    #[serde(default, deserialize_with = "nullable")]
    pub hostname: String,
    /// Overrides every other host name; it may contain dots.
    #[serde(default, deserialize_with = "nullable")]
    pub hostname_override: String,
    /// The subdomain of the cluster's domain for the pod's FQDN.
    #[serde(default, deserialize_with = "nullable")]
    pub subdomain: String,
    /// Use the FQDN as host name.
    #[serde(default, rename = "setHostnameAsFQDN", deserialize_with = "nullable")]
    pub set_hostname_as_fqdn: bool,
    /// How the pod resolves names.
    #[serde(default, deserialize_with = "nullable")]
    pub dns_policy: DnsPolicy,
    /// The pod's own DNS settings.
    #[serde(default)]
    pub dns_config: Option<PodDns>,
    /// Additional lines of the hosts file.
    #[serde(default, deserialize_with = "nullable")]
    pub host_aliases: Vec<HostAlias>,
    /// Volumes that containers can mount.
    #[serde(default, deserialize_with = "nullable")]
    pub volumes: Vec<Volume>,
    /// Secrets with registry credentials.
    #[serde(default, deserialize_with = "nullable")]
    pub image_pull_secrets: Vec<PullSecret>,
    /// How long the pod may be active, in seconds.
    #[serde(default)]
    pub active_deadline_seconds: Option<u64>,
    /// The pod's service account in the cluster.
    #[serde(default, deserialize_with = "nullable")]
    pub service_account_name: String,
    /// The name of the RuntimeClass.
    #[serde(default)]
    pub runtime_class_name: Option<String>,
    /// The pod's priority; node-critical pods are protected from the OOM killer.
    #[serde(default)]
    pub priority: Option<i32>,
    /// The overhead of the RuntimeClass.
    #[serde(default, deserialize_with = "nullable")]
    pub overhead: ResourceList,
    /// Pod-level resources.
    #[serde(default)]
    pub resources: Option<Resources>,
    /// The labels that a node must have.
    #[serde(default, deserialize_with = "nullable")]
    pub node_selector: BTreeMap<String, String>,
    /// Security settings for all containers.
    #[serde(default, deserialize_with = "nullable")]
    pub security_context: PodSecurityContext,
}

impl PodSpec {
    /// Returns the init and regular containers, in their start order.
    pub fn init_and_regular(&self) -> impl Iterator<Item = &Container> {
        self.init_containers.iter().chain(&self.containers)
    }
}
