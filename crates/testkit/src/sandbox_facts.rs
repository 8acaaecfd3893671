//! What those tell of sandboxes that make them for tests, in messages that both services of containerd share.

use orlop_ttrpc::Writer;

/// Nanoseconds of all processors that sandboxes are said to have used.
pub const CPU_NS: u64 = 7_000_000_000;
/// Bytes that they are said to use.
pub const MEMORY: u64 = 48 << 20;

/// `SandboxStatusResponse`, with a line of information.
pub fn status(ready: bool, machine: &str) -> Vec<u8> {
    let word = if ready { "READY" } else { "NOTREADY" };
    let machine = Writer::default().text(1, "machine").text(2, machine).done();
    let state = format!("SANDBOX_{word}");
    Writer::default()
        .text(3, &state)
        .message(4, &machine)
        .done()
}

/// `PlatformResponse`, of a Linux on this architecture.
pub fn platform(architecture: &str) -> Vec<u8> {
    let platform = Writer::default().text(1, "linux").text(2, architecture);
    Writer::default().message(1, &platform.done()).done()
}

/// `SandboxMetricsResponse`, in the terms of cgroup v2.
pub fn metrics() -> Vec<u8> {
    let pids = Writer::default().number(1, 1).done();
    let cpu = Writer::default().number(1, CPU_NS / 1000).done();
    let memory = Writer::default().number(32, MEMORY).done();
    let metrics = Writer::default()
        .message(1, &pids)
        .message(2, &cpu)
        .message(4, &memory);
    let any = Writer::default()
        .text(1, "io.containerd.cgroups.v2.Metrics")
        .bytes(2, &metrics.done())
        .done();
    let metric = Writer::default().message(3, &any).done();
    Writer::default().message(1, &metric).done()
}
