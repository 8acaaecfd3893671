//! Restart, pull, resize and termination message policies.

use serde::Deserialize;

use super::nullable::nullable;

/// When the pod's containers restart after they end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub enum RestartPolicy {
    /// Always, whatever the exit code.
    #[default]
    Always,
    /// If the exit code is not 0.
    OnFailure,
    /// Never.
    Never,
}

/// The restart policy of a single container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum ContainerRestartPolicy {
    /// Always, whatever the exit code; on an init container: a sidecar.
    Always,
    /// If the exit code is not 0.
    OnFailure,
    /// Never.
    Never,
}

/// A restart rule for exit codes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RestartRule {
    /// The action if the rule matches.
    pub action: RestartRuleAction,
    /// The codes that match; without codes, the rule never matches.
    #[serde(default)]
    pub exit_codes: Option<ExitCodes>,
}

/// The action of a restart rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum RestartRuleAction {
    /// Restart this container.
    Restart,
    /// Restart all containers of the pod, from the first init container on.
    RestartAllContainers,
}

/// A condition on the exit code.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ExitCodes {
    /// Whether the code must be in the list or not.
    pub operator: ExitCodeOperator,
    /// The codes.
    #[serde(default, deserialize_with = "nullable")]
    pub values: Vec<i32>,
}

/// How a list of exit codes matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum ExitCodeOperator {
    /// The code is in the list.
    In,
    /// The code is not in the list.
    NotIn,
}

/// When an image is pulled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum PullPolicy {
    /// Before each start.
    Always,
    /// If the node does not have it.
    IfNotPresent,
    /// Never.
    Never,
}

/// How a change of one resource affects a running container.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResizePolicy {
    /// `cpu` or `memory`.
    pub resource_name: String,
    /// Whether the change restarts the container.
    pub restart_policy: ResizeRestartPolicy,
}

/// Whether a change of resources restarts the container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum ResizeRestartPolicy {
    /// Resize it while it runs.
    NotRequired,
    /// Restart it with the new resources.
    RestartContainer,
}

/// The source of a termination message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub enum TerminationMessagePolicy {
    /// The file at `terminationMessagePath`.
    #[default]
    File,
    /// The file, or the end of the log if the file is empty and the container failed.
    FallbackToLogsOnError,
}

impl TerminationMessagePolicy {
    /// Returns the name in Kubernetes.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::File => "File",
            Self::FallbackToLogsOnError => "FallbackToLogsOnError",
        }
    }
}
