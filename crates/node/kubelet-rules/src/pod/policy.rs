//! When what ended is started again.

use serde::Deserialize;

use super::nullable::nullable;

/// When a container of the pod that ended is started again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub enum RestartPolicy {
    /// Whatever its exit code.
    #[default]
    Always,
    /// Unless it ended with 0.
    OnFailure,
    /// Never.
    Never,
}

/// The same, said by a container for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum ContainerRestartPolicy {
    /// Whatever its exit code; on an init container: a sidecar.
    Always,
    /// Unless it ended with 0.
    OnFailure,
    /// Never.
    Never,
}

/// An exit code that decides by itself.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RestartRule {
    /// What happens when the rule matches.
    pub action: RestartRuleAction,
    /// The codes that match; a rule without any never does.
    #[serde(default)]
    pub exit_codes: Option<ExitCodes>,
}

/// What a matching rule asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum RestartRuleAction {
    /// Start this container again.
    Restart,
    /// Start the whole pod's containers again, from the first init container on.
    RestartAllContainers,
}

/// A set of exit codes, or all but a set.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ExitCodes {
    /// How the codes are meant.
    pub operator: ExitCodeOperator,
    /// The codes.
    #[serde(default, deserialize_with = "nullable")]
    pub values: Vec<i32>,
}

/// How a set of exit codes is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum ExitCodeOperator {
    /// One of them.
    In,
    /// None of them.
    NotIn,
}

/// When an image is pulled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum PullPolicy {
    /// Before each start.
    Always,
    /// If the node does not have it.
    IfNotPresent,
    /// Not at all.
    Never,
}

/// What a change of one resource does to a running container.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResizePolicy {
    /// `cpu` or `memory`.
    pub resource_name: String,
    /// Whether the container is started anew.
    pub restart_policy: ResizeRestartPolicy,
}

/// Whether a change of resources starts the container anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum ResizeRestartPolicy {
    /// Change it while it runs.
    NotRequired,
    /// Start it anew with the new resources.
    RestartContainer,
}

/// Where a container's last words are read from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub enum TerminationMessagePolicy {
    /// The file at `terminationMessagePath`.
    #[default]
    File,
    /// The file, or the end of the log if the file is empty and the container failed.
    FallbackToLogsOnError,
}

impl TerminationMessagePolicy {
    /// Kubernetes' word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::File => "File",
            Self::FallbackToLogsOnError => "FallbackToLogsOnError",
        }
    }
}
