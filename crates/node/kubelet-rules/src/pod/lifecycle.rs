//! Hooks and probes in the pod specification.

use serde::{Deserialize, Serialize};

use super::nullable::nullable;

/// The hooks of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lifecycle {
    /// The hook after the start; its failure kills the container.
    #[serde(default)]
    pub post_start: Option<LifecycleHandler>,
    /// The hook before the stop, within the grace period.
    #[serde(default)]
    pub pre_stop: Option<LifecycleHandler>,
    /// The signal that stops the container; overrides the image's.
    #[serde(default)]
    pub stop_signal: Option<String>,
}

/// The action of a hook.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LifecycleHandler {
    /// Run a command in the container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exec: Option<ExecAction>,
    /// Send an HTTP request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_get: Option<HttpGetAction>,
    /// Wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sleep: Option<SleepAction>,
}

/// A check of a container, with its schedule.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Probe {
    /// Run a command in the container.
    #[serde(default)]
    pub exec: Option<ExecAction>,
    /// Send an HTTP request.
    #[serde(default)]
    pub http_get: Option<HttpGetAction>,
    /// Open a TCP connection.
    #[serde(default)]
    pub tcp_socket: Option<TcpSocketAction>,
    /// Call the gRPC health service.
    #[serde(default)]
    pub grpc: Option<GrpcAction>,
    /// Seconds from the container's start to the first check.
    #[serde(default, deserialize_with = "nullable")]
    pub initial_delay_seconds: u32,
    /// Timeout of a check in seconds.
    #[serde(default = "one")]
    pub timeout_seconds: u32,
    /// Seconds between two checks.
    #[serde(default = "ten")]
    pub period_seconds: u32,
    /// Consecutive successes that count as success.
    #[serde(default = "one")]
    pub success_threshold: u32,
    /// Consecutive failures that count as failure.
    #[serde(default = "three")]
    pub failure_threshold: u32,
    /// Overrides the pod's grace period if this probe ends the container.
    #[serde(default)]
    pub termination_grace_period_seconds: Option<i64>,
}

impl Default for Probe {
    fn default() -> Self {
        Self {
            exec: None,
            http_get: None,
            tcp_socket: None,
            grpc: None,
            initial_delay_seconds: 0,
            timeout_seconds: one(),
            period_seconds: ten(),
            success_threshold: one(),
            failure_threshold: three(),
            termination_grace_period_seconds: None,
        }
    }
}

/// A command to run in the container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct ExecAction {
    /// The command and its arguments, without a shell.
    #[serde(default, deserialize_with = "nullable")]
    pub command: Vec<String>,
}

/// An HTTP request to send.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpGetAction {
    /// The path, with its query.
    #[serde(
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "String::is_empty"
    )]
    pub path: String,
    /// The port.
    pub port: Port,
    /// The host; the pod's own address if empty.
    #[serde(
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "String::is_empty"
    )]
    pub host: String,
    /// `HTTP` or `HTTPS`.
    #[serde(
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "String::is_empty"
    )]
    pub scheme: String,
    /// Headers to send.
    #[serde(
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub http_headers: Vec<HttpHeader>,
}

/// A header of a request.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct HttpHeader {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// A delay.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct SleepAction {
    /// Number of seconds.
    pub seconds: u64,
}

/// A TCP connection to open.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct TcpSocketAction {
    /// The port.
    pub port: Port,
    /// The host; the pod's own address if empty.
    #[serde(default, deserialize_with = "nullable")]
    pub host: String,
}

/// A call of the gRPC health service.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct GrpcAction {
    /// The port.
    pub port: u16,
    /// The service whose health is requested.
    #[serde(default, deserialize_with = "nullable")]
    pub service: String,
}

/// A port, by number or by the name of a container port.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Port {
    /// By number.
    Number(u16),
    /// By name.
    Name(String),
}

fn one() -> u32 {
    1
}

fn three() -> u32 {
    3
}

fn ten() -> u32 {
    10
}
