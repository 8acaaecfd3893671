//! Fixed responses about test sandboxes, in messages that both sandbox services of containerd share.

use orlop_containerd_api::cgroups::v2;
use orlop_containerd_api::sandbox::{
    PlatformResponse, SandboxMetricsResponse, SandboxStatusResponse,
};
use orlop_containerd_api::types::{Metric, Platform};
use orlop_containerd_api::{Any, Message};

/// Reported CPU usage of a sandbox in nanoseconds.
pub const CPU_NS: u64 = 7_000_000_000;
/// Reported memory usage in bytes.
pub const MEMORY: u64 = 48 << 20;

/// Returns a `SandboxStatusResponse` with a line of information.
pub fn status(ready: bool, machine: &str) -> Vec<u8> {
    let word = if ready { "READY" } else { "NOTREADY" };
    let status = SandboxStatusResponse {
        state: format!("SANDBOX_{word}"),
        info: [("machine".to_owned(), machine.to_owned())].into(),
        ..SandboxStatusResponse::default()
    };
    status.encode_to_vec()
}

/// Returns a `PlatformResponse` for Linux on this architecture.
pub fn platform(architecture: &str) -> Vec<u8> {
    let response = PlatformResponse {
        platform: Some(Platform {
            os: "linux".into(),
            architecture: architecture.into(),
        }),
    };
    response.encode_to_vec()
}

/// Returns a `SandboxMetricsResponse` in the terms of cgroup v2.
pub fn metrics() -> Vec<u8> {
    let metrics = v2::Metrics {
        pids: Some(v2::PidsStat {
            current: 1,
            ..v2::PidsStat::default()
        }),
        cpu: Some(v2::CpuStat {
            usage_usec: CPU_NS / 1000,
            ..v2::CpuStat::default()
        }),
        memory: Some(v2::MemoryStat {
            usage: MEMORY,
            ..v2::MemoryStat::default()
        }),
        ..v2::Metrics::default()
    };
    let response = SandboxMetricsResponse {
        metrics: Some(Metric {
            data: Some(Any::pack(&metrics)),
            ..Metric::default()
        }),
    };
    response.encode_to_vec()
}
