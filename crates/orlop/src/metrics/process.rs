//! Resource usage of the daemon, read from /proc at scrape time.

use std::fmt;
use std::fs;
use std::sync::OnceLock;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use rustix::param::clock_ticks_per_second;
use rustix::time::{ClockId, clock_gettime};

/// The standard process metrics of Prometheus clients, under their usual names.
#[derive(Debug)]
pub(super) struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(usage) = Usage::read() else {
            return Ok(());
        };
        let mut gauge = |name: &str, help: &str, value: i64| {
            let gauge = ConstGauge::new(value);
            let descriptor = encoder.encode_descriptor(name, help, None, gauge.metric_type())?;
            gauge.encode(descriptor)
        };
        gauge(
            "process_resident_memory_bytes",
            "Resident memory in bytes",
            usage.resident as i64,
        )?;
        gauge(
            "process_virtual_memory_bytes",
            "Virtual memory in bytes",
            usage.virtual_memory as i64,
        )?;
        gauge("process_threads", "Threads", usage.threads as i64)?;
        if let Some(open) = usage.open_files {
            gauge(
                "process_open_fds",
                "Number of open file descriptors",
                open as i64,
            )?;
        }
        if let Some(limit) = rustix::process::getrlimit(rustix::process::Resource::Nofile).current {
            gauge(
                "process_max_fds",
                "Maximum number of open file descriptors",
                limit as i64,
            )?;
        }
        if let Some(started_at) = usage.started_at {
            let gauge = ConstGauge::new(started_at);
            let descriptor = encoder.encode_descriptor(
                "process_start_time_seconds",
                "Start time of the process since the Unix epoch in seconds",
                None,
                gauge.metric_type(),
            )?;
            gauge.encode(descriptor)?;
        }
        let cpu = ConstCounter::new(usage.cpu_seconds);
        let descriptor = encoder.encode_descriptor(
            "process_cpu_seconds",
            "Total user and system CPU time in seconds",
            None,
            cpu.metric_type(),
        )?;
        cpu.encode(descriptor)
    }
}

struct Usage {
    resident: u64,
    virtual_memory: u64,
    threads: u64,
    cpu_seconds: f64,
    open_files: Option<u64>,
    started_at: Option<f64>,
}

impl Usage {
    fn read() -> Option<Self> {
        let status = orlop_fs::read_kernel_text("/proc/self/status").ok()?;
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        Some(Self {
            resident: field(&status, "VmRSS:")? << 10,
            virtual_memory: field(&status, "VmSize:")? << 10,
            threads: field(&status, "Threads:")?,
            cpu_seconds: cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9,
            // The open directory itself is one of them.
            open_files: fs::read_dir("/proc/self/fd")
                .ok()
                .map(|files| files.count().saturating_sub(1) as u64),
            started_at: started_at(),
        })
    }
}

/// Returns the start time of this process in seconds since 1970. It is computed once: a later change of the clock must
/// not look like a restart.
fn started_at() -> Option<f64> {
    static STARTED: OnceLock<Option<f64>> = OnceLock::new();
    *STARTED.get_or_init(|| {
        let stat = orlop_fs::read_kernel_text("/proc/self/stat").ok()?;
        // The program name may contain any character.
        let (_, fields) = stat.rsplit_once(')')?;
        // `starttime` of proc_pid_stat(5): the 22nd field; two are already removed.
        let ticks: u64 = fields.split_ascii_whitespace().nth(19)?.parse().ok()?;
        let since_boot = ticks as f64 / clock_ticks_per_second() as f64;
        let seconds = |clock| {
            let time = clock_gettime(clock);
            time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
        };
        Some(seconds(ClockId::Realtime) - (seconds(ClockId::Boottime) - since_boot))
    })
}

/// Returns a field of proc_pid_status(5); sizes are in kB.
fn field(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_uses_memory_time_and_files() {
        let usage = Usage::read().unwrap();
        assert!(usage.resident > 100_000 && usage.virtual_memory >= usage.resident);
        assert!(usage.threads >= 1 && usage.open_files >= Some(3));
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
        let age = now.as_secs_f64() - usage.started_at.unwrap();
        assert!((-1.0..600.0).contains(&age), "{age}");
        assert!(usage.cpu_seconds > 0.0 && usage.cpu_seconds < 600.0);
    }
}
