//! A pod as it is wanted.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::nullable::nullable;
use super::{
    Container, DnsPolicy, EphemeralContainer, HostAlias, ObjectMeta, PodDns, PodSecurityContext,
    PullSecret, ResourceList, Resources, RestartPolicy, Volume,
};

/// A pod as it is wanted.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Pod {
    /// Who it is.
    #[serde(default, deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    /// What it is.
    #[serde(default, deserialize_with = "nullable")]
    pub spec: PodSpec,
}

impl Pod {
    /// Whether the pod has been told to go.
    pub fn is_being_deleted(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }
}

/// What a pod consists of.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSpec {
    /// The containers the pod is for.
    #[serde(default, deserialize_with = "nullable")]
    pub containers: Vec<Container>,
    /// Those that come first: each to its end, or for good if it is a sidecar.
    #[serde(default, deserialize_with = "nullable")]
    pub init_containers: Vec<Container>,
    /// Those added to a running pod, to look into it.
    #[serde(default, deserialize_with = "nullable")]
    pub ephemeral_containers: Vec<EphemeralContainer>,
    /// When a container that ended is started again.
    #[serde(default, deserialize_with = "nullable")]
    pub restart_policy: RestartPolicy,
    /// How long a container has to stop on its own, in seconds.
    #[serde(default)]
    pub termination_grace_period_seconds: Option<i64>,
    /// Use the node's network.
    #[serde(default, deserialize_with = "nullable")]
    pub host_network: bool,
    /// Use the node's process ids.
    #[serde(default, rename = "hostPID", deserialize_with = "nullable")]
    pub host_pid: bool,
    /// Use the node's System V IPC.
    #[serde(default, rename = "hostIPC", deserialize_with = "nullable")]
    pub host_ipc: bool,
    /// `false` asks for a user namespace of the pod's own.
    #[serde(default)]
    pub host_users: Option<bool>,
    /// Let the pod's containers see each other's processes.
    #[serde(default, deserialize_with = "nullable")]
    pub share_process_namespace: bool,
    /// The host name to use in place of the pod's name.
    #[serde(default, deserialize_with = "nullable")]
    pub hostname: String,
    /// The host name to use in place of all that, as it is: it may have dots.
    #[serde(default, deserialize_with = "nullable")]
    pub hostname_override: String,
    /// The domain beneath the cluster's that the pod's full host name is in.
    #[serde(default, deserialize_with = "nullable")]
    pub subdomain: String,
    /// Use the full name as host name.
    #[serde(default, rename = "setHostnameAsFQDN", deserialize_with = "nullable")]
    pub set_hostname_as_fqdn: bool,
    /// How names are resolved.
    #[serde(default, deserialize_with = "nullable")]
    pub dns_policy: DnsPolicy,
    /// What the pod says itself of name resolution.
    #[serde(default)]
    pub dns_config: Option<PodDns>,
    /// Further lines of the hosts file.
    #[serde(default, deserialize_with = "nullable")]
    pub host_aliases: Vec<HostAlias>,
    /// Files that containers share.
    #[serde(default, deserialize_with = "nullable")]
    pub volumes: Vec<Volume>,
    /// Secrets with credentials for registries.
    #[serde(default, deserialize_with = "nullable")]
    pub image_pull_secrets: Vec<PullSecret>,
    /// How long the pod may be at work, in seconds.
    #[serde(default)]
    pub active_deadline_seconds: Option<u64>,
    /// The pod's account in the cluster.
    #[serde(default, deserialize_with = "nullable")]
    pub service_account_name: String,
    /// The name of the RuntimeClass.
    #[serde(default)]
    pub runtime_class_name: Option<String>,
    /// The pod's priority; the node's critical ones are kept from the OOM killer.
    #[serde(default)]
    pub priority: Option<i32>,
    /// What the RuntimeClass costs on top of the containers.
    #[serde(default, deserialize_with = "nullable")]
    pub overhead: ResourceList,
    /// Resources of the pod as a whole.
    #[serde(default)]
    pub resources: Option<Resources>,
    /// The labels a node must have.
    #[serde(default, deserialize_with = "nullable")]
    pub node_selector: BTreeMap<String, String>,
    /// Security settings for all containers.
    #[serde(default, deserialize_with = "nullable")]
    pub security_context: PodSecurityContext,
}

impl PodSpec {
    /// Init containers and regular ones, in the order in which they are started.
    pub fn init_and_regular(&self) -> impl Iterator<Item = &Container> {
        self.init_containers.iter().chain(&self.containers)
    }
}
