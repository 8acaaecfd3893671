//! Containers in the pod specification.

use std::ops::Deref;

use serde::{Deserialize, Serialize};

use super::nullable::nullable;
use super::policy::{
    ContainerRestartPolicy, PullPolicy, ResizePolicy, RestartRule, TerminationMessagePolicy,
};
use super::{ContainerSecurityContext, EnvFrom, EnvSource, Lifecycle, Probe, Resources};

/// A container in the pod specification.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Container {
    /// Its name, unique in the pod.
    #[serde(default, deserialize_with = "nullable")]
    pub name: String,
    /// The image, as written in the manifest.
    #[serde(default, deserialize_with = "nullable")]
    pub image: String,
    /// Replaces the image's entry point.
    #[serde(default, deserialize_with = "nullable")]
    pub command: Vec<String>,
    /// Replaces the image's arguments.
    #[serde(default, deserialize_with = "nullable")]
    pub args: Vec<String>,
    /// Replaces the image's working directory.
    #[serde(default, deserialize_with = "nullable")]
    pub working_dir: String,
    /// Ports the container listens on.
    #[serde(default, deserialize_with = "nullable")]
    pub ports: Vec<ContainerPort>,
    /// Environment variables; later ones can refer to earlier ones.
    #[serde(default, deserialize_with = "nullable")]
    pub env: Vec<EnvVar>,
    /// Variables from whole objects; `env` overrides them.
    #[serde(default, deserialize_with = "nullable")]
    pub env_from: Vec<EnvFrom>,
    /// Resource requests and limits.
    #[serde(default, deserialize_with = "nullable")]
    pub resources: Resources,
    /// How a change of resources affects the running container.
    #[serde(default, deserialize_with = "nullable")]
    pub resize_policy: Vec<ResizePolicy>,
    /// Overrides the pod's restart policy; `Always` on an init container makes it a sidecar.
    #[serde(default)]
    pub restart_policy: Option<ContainerRestartPolicy>,
    /// Rules for exit codes that override the policy; the first match wins.
    #[serde(default, deserialize_with = "nullable")]
    pub restart_policy_rules: Vec<RestartRule>,
    /// Mounts of the pod's volumes.
    #[serde(default, deserialize_with = "nullable")]
    pub volume_mounts: Vec<VolumeMount>,
    /// Checks whether the container still works.
    #[serde(default)]
    pub liveness_probe: Option<Probe>,
    /// Checks whether the container is ready for traffic.
    #[serde(default)]
    pub readiness_probe: Option<Probe>,
    /// Checks whether the container has started.
    #[serde(default)]
    pub startup_probe: Option<Probe>,
    /// Hooks after its start and before its stop.
    #[serde(default, deserialize_with = "nullable")]
    pub lifecycle: Lifecycle,
    /// The path of the termination message.
    #[serde(default = "default_termination_message_path")]
    pub termination_message_path: String,
    /// The source of the termination message.
    #[serde(default, deserialize_with = "nullable")]
    pub termination_message_policy: TerminationMessagePolicy,
    /// When the image is pulled; derived from the image's tag if unset.
    #[serde(default)]
    pub image_pull_policy: Option<PullPolicy>,
    /// Security settings, which override the pod's.
    #[serde(default, deserialize_with = "nullable")]
    pub security_context: ContainerSecurityContext,
    /// Keep the standard input open.
    #[serde(default, deserialize_with = "nullable")]
    pub stdin: bool,
    /// Close the standard input after the first client disconnects.
    #[serde(default, deserialize_with = "nullable")]
    pub stdin_once: bool,
    /// Allocate a terminal.
    #[serde(default, deserialize_with = "nullable")]
    pub tty: bool,
}

impl Container {
    /// Whether this init container is a sidecar, which keeps running.
    pub fn is_sidecar(&self) -> bool {
        self.restart_policy == Some(ContainerRestartPolicy::Always)
    }
}

/// A container that is added to a running pod.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EphemeralContainer {
    /// The container itself.
    #[serde(flatten)]
    pub container: Container,
    /// The container whose processes it can see.
    #[serde(default, deserialize_with = "nullable")]
    pub target_container_name: String,
}

impl Deref for EphemeralContainer {
    type Target = Container;

    fn deref(&self) -> &Container {
        &self.container
    }
}

/// A port a container listens on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerPort {
    /// A name for use in probes and services.
    #[serde(
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "String::is_empty"
    )]
    pub name: String,
    /// The port on the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_port: Option<u16>,
    /// The port in the pod.
    pub container_port: u16,
    /// `TCP`, `UDP` or `SCTP`.
    #[serde(default = "default_protocol")]
    pub protocol: String,
    /// The node's address to listen on.
    #[serde(
        default,
        rename = "hostIP",
        deserialize_with = "nullable",
        skip_serializing_if = "String::is_empty"
    )]
    pub host_ip: String,
}

/// One environment variable.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvVar {
    /// Its name.
    pub name: String,
    /// Its value, in which `$(NAME)` refers to an earlier variable.
    #[serde(default, deserialize_with = "nullable")]
    pub value: String,
    /// Another source of its value.
    #[serde(default)]
    pub value_from: Option<EnvSource>,
}

/// A volume mount of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeMount {
    /// The volume's name.
    pub name: String,
    /// The path in the container.
    pub mount_path: String,
    /// Whether it is mounted read-only.
    #[serde(default, deserialize_with = "nullable")]
    pub read_only: bool,
    /// The part of the volume to mount.
    #[serde(default, deserialize_with = "nullable")]
    pub sub_path: String,
    /// The subPath with references `$(NAME)` to the container's variables.
    #[serde(default, deserialize_with = "nullable")]
    pub sub_path_expr: String,
    /// `None`, `HostToContainer` or `Bidirectional`.
    #[serde(default)]
    pub mount_propagation: Option<String>,
    /// `Disabled`, `IfPossible` or `Enabled`.
    #[serde(default)]
    pub recursive_read_only: Option<String>,
}

fn default_protocol() -> String {
    "TCP".to_owned()
}

fn default_termination_message_path() -> String {
    "/dev/termination-log".to_owned()
}
