//! Container statistics as reported by the runtime. No cgroup of the host covers processes in a guest.

use std::fmt;

use orlop_containerd_api::Any;
use orlop_containerd_api::cgroups::{v1, v2};

/// Current and cumulative resource usage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    pub(crate) cpu_ns: u64,
    pub(crate) memory: u64,
    /// Reclaimable file cache, which is part of the memory.
    pub(crate) inactive_file: u64,
    pub(crate) rss: u64,
    pub(crate) page_faults: u64,
    pub(crate) major_page_faults: u64,
    pub(crate) processes: u64,
}

/// Numbers in the order that the daemon parses.
impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            cpu_ns,
            memory,
            inactive_file,
            rss,
            page_faults,
            major_page_faults,
            processes,
        } = self;
        writeln!(
            f,
            "{cpu_ns} {memory} {inactive_file} {rss} {page_faults} {major_page_faults} {processes}"
        )
    }
}

impl Figures {
    /// Extracts the statistics from a shim's cgroup metrics; `None` if they have another type.
    pub(crate) fn of_metrics(metrics: &Any) -> Option<Self> {
        let first = || metrics.unpack().map(Self::of_v1);
        first().or_else(|| metrics.unpack().map(Self::of_v2))
    }

    fn of_v1(metrics: v1::Metrics) -> Self {
        let cpu = metrics.cpu.unwrap_or_default();
        let memory = metrics.memory.unwrap_or_default();
        Self {
            cpu_ns: cpu.usage.unwrap_or_default().total,
            memory: memory.usage.unwrap_or_default().usage,
            inactive_file: memory.total_inactive_file,
            rss: memory.total_rss,
            page_faults: memory.total_pg_fault,
            major_page_faults: memory.total_pg_maj_fault,
            processes: metrics.pids.unwrap_or_default().current,
        }
    }

    fn of_v2(metrics: v2::Metrics) -> Self {
        let cpu = metrics.cpu.unwrap_or_default();
        let memory = metrics.memory.unwrap_or_default();
        Self {
            cpu_ns: cpu.usage_usec.saturating_mul(1000),
            memory: memory.usage,
            inactive_file: memory.inactive_file,
            rss: memory.anon,
            page_faults: memory.pgfault,
            major_page_faults: memory.pgmajfault,
            processes: metrics.pids.unwrap_or_default().current,
        }
    }

    /// Extracts the statistics from the output of `events --stats`, in runc's format.
    pub(crate) fn of_event(event: &str) -> Option<Self> {
        let event: serde_json::Value = serde_json::from_str(event).ok()?;
        let number = |path: &str| event.pointer(path).and_then(serde_json::Value::as_u64);
        Some(Self {
            cpu_ns: number("/data/cpu/usage/total")?,
            memory: number("/data/memory/usage/usage").unwrap_or(0),
            processes: number("/data/pids/current").unwrap_or(0),
            ..Self::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use orlop_containerd_api::cgroups::{v1, v2};
    use orlop_containerd_api::{Any, Message};

    use super::Figures;

    const READ: Figures = Figures {
        cpu_ns: 5000,
        memory: 4096,
        inactive_file: 1024,
        rss: 2048,
        page_faults: 7,
        major_page_faults: 1,
        processes: 3,
    };

    #[test]
    fn both_versions_tell_the_same() {
        let first = v1::Metrics {
            pids: Some(v1::PidsStat {
                current: 3,
                limit: 0,
            }),
            cpu: Some(v1::CpuStat {
                usage: Some(v1::CpuUsage {
                    total: 5000,
                    kernel: 9,
                    user: 0,
                }),
                ..v1::CpuStat::default()
            }),
            memory: Some(v1::MemoryStat {
                rss: 1,
                total_rss: 2048,
                total_pg_fault: 7,
                total_pg_maj_fault: 1,
                total_inactive_file: 1024,
                usage: Some(v1::MemoryEntry {
                    limit: 8192,
                    usage: 4096,
                    ..v1::MemoryEntry::default()
                }),
                ..v1::MemoryStat::default()
            }),
            ..v1::Metrics::default()
        };
        let mut first = Any::pack(&first);
        assert_eq!(Figures::of_metrics(&first), Some(READ));
        let second = v2::Metrics {
            pids: Some(v2::PidsStat {
                current: 3,
                limit: 0,
            }),
            cpu: Some(v2::CpuStat {
                usage_usec: 5,
                ..v2::CpuStat::default()
            }),
            memory: Some(v2::MemoryStat {
                anon: 2048,
                inactive_file: 1024,
                pgfault: 7,
                pgmajfault: 1,
                usage: 4096,
                ..v2::MemoryStat::default()
            }),
            ..v2::Metrics::default()
        };
        let mut second = Any::pack(&second);
        second.type_url.insert_str(0, "types.containerd.io/");
        assert_eq!(Figures::of_metrics(&second), Some(READ));
        second.type_url = "some.other.Metrics".into();
        assert_eq!(Figures::of_metrics(&second), None);
        first.value.pop();
        assert_eq!(Figures::of_metrics(&first), None);
        assert_eq!(READ.to_string(), "5000 4096 1024 2048 7 1 3\n");
    }

    #[test]
    fn fuzzed_metrics_do_not_break_the_reader() {
        let example = v2::Metrics {
            memory: Some(v2::MemoryStat {
                usage: 4096,
                ..v2::MemoryStat::default()
            }),
            ..v2::Metrics::default()
        };
        orlop_testkit::Fuzz::new()
            .example(example.encode_to_vec())
            .run(|input| {
                for version in ["v1", "v2"] {
                    let _ = Figures::of_metrics(&Any {
                        type_url: format!("io.containerd.cgroups.{version}.Metrics"),
                        value: input.to_vec(),
                    });
                }
            });
    }

    #[test]
    fn events_tell_what_they_have() {
        let event = r#"{"type":"stats","id":"a","data":{"cpu":{"usage":{"total":70,"kernel":0}},
            "memory":{"usage":{"usage":80}},"pids":{"current":2}}}"#;
        let read = Figures::of_event(event).unwrap();
        assert_eq!((read.cpu_ns, read.memory, read.processes), (70, 80, 2));
        assert_eq!(Figures::of_event("{}"), None);
    }
}
