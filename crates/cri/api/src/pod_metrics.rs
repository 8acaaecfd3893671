//! Prometheus metrics of pods and containers, under cAdvisor's names.

use std::borrow::Cow;
use std::sync::Arc;

use crate::metric::{CommonLabels, LabelValues};
use crate::v1::{Metric, MetricDescriptor, MetricType, UInt64Value};

use MetricType::{Counter, Gauge};

/// The labels that every metric has, in order.
pub const LABELS: [&str; 6] = ["id", "name", "image", "container", "namespace", "pod"];

/// A metric: its name, its help text, its labels beyond the common ones, and its type.
pub type Row = (
    &'static str,
    &'static str,
    &'static [&'static str],
    MetricType,
);

/// Metrics of every runtime.
#[rustfmt::skip]
const COMMON: &[Row] = &[
    ("container_blkio_device_usage_total", "Bytes read from and written to block devices", &["device", "major", "minor", "operation"], Counter),
    ("container_cpu_cfs_burst_periods_total", "Periods in which the container used saved CPU time beyond its limit (burst)", &[], Counter),
    ("container_cpu_cfs_burst_seconds_total", "CPU time used beyond the limit in burst periods", &[], Counter),
    ("container_cpu_cfs_periods_total", "Periods in which the CPU limit was in force", &[], Counter),
    ("container_cpu_cfs_throttled_periods_total", "Periods in which the CPU limit was reached", &[], Counter),
    ("container_cpu_cfs_throttled_seconds_total", "Time spent waiting because the CPU limit was reached", &[], Counter),
    ("container_cpu_system_seconds_total", "CPU time spent in the kernel", &[], Counter),
    ("container_cpu_usage_seconds_total", "CPU time used", &["cpu"], Counter),
    ("container_cpu_user_seconds_total", "CPU time spent in user space", &[], Counter),
    ("container_file_descriptors", "Open file descriptors", &[], Gauge),
    ("container_fs_inodes_free", "Inodes left on the file system", &["device"], Gauge),
    ("container_fs_inodes_total", "Inodes of the file system", &["device"], Gauge),
    ("container_fs_limit_bytes", "Bytes that can be used on the file system", &["device"], Gauge),
    ("container_fs_reads_bytes_total", "Bytes read from block devices", &["device"], Counter),
    ("container_fs_reads_total", "Reads from block devices", &["device"], Counter),
    ("container_fs_usage_bytes", "Bytes used in the writable layer", &["device"], Gauge),
    ("container_fs_writes_bytes_total", "Bytes written to block devices", &["device"], Counter),
    ("container_fs_writes_total", "Writes to block devices", &["device"], Counter),
    ("container_hugetlb_usage_bytes", "Huge pages in use", &["pagesize"], Gauge),
    ("container_last_seen", "Time when these values were read", &[], Gauge),
    ("container_memory_cache", "Memory used for the file cache", &[], Gauge),
    ("container_memory_failcnt", "Number of times the memory limit was reached", &[], Counter),
    ("container_memory_failures_total", "Page faults", &["failure_type", "scope"], Counter),
    ("container_memory_kernel_usage", "Kernel memory charged to the container", &[], Gauge),
    ("container_memory_mapped_file", "Memory used for mapped files", &[], Gauge),
    ("container_memory_max_usage_bytes", "Maximum memory used", &[], Gauge),
    ("container_memory_rss", "Anonymous memory", &[], Gauge),
    ("container_memory_swap", "Swap in use", &[], Gauge),
    ("container_memory_total_active_file_bytes", "Active part of the file cache", &[], Gauge),
    ("container_memory_total_inactive_file_bytes", "Inactive part of the file cache", &[], Gauge),
    ("container_memory_usage_bytes", "Memory used, caches included", &[], Gauge),
    ("container_memory_working_set_bytes", "Memory that the kernel cannot reclaim easily: usage without inactive file cache", &[], Gauge),
    ("container_network_receive_bytes_total", "Bytes received", &["interface"], Counter),
    ("container_network_receive_errors_total", "Errors when receiving", &["interface"], Counter),
    ("container_network_receive_packets_dropped_total", "Packets dropped when receiving", &["interface"], Counter),
    ("container_network_receive_packets_total", "Packets received", &["interface"], Counter),
    ("container_network_transmit_bytes_total", "Bytes sent", &["interface"], Counter),
    ("container_network_transmit_errors_total", "Errors when sending", &["interface"], Counter),
    ("container_network_transmit_packets_dropped_total", "Packets dropped when sending", &["interface"], Counter),
    ("container_network_transmit_packets_total", "Packets sent", &["interface"], Counter),
    ("container_oom_events_total", "Processes killed because the container was out of memory", &[], Counter),
    ("container_pressure_cpu_stalled_seconds_total", "Time in which all tasks waited for a CPU", &[], Counter),
    ("container_pressure_cpu_waiting_seconds_total", "Time in which at least one task waited for a CPU", &[], Counter),
    ("container_pressure_io_stalled_seconds_total", "Time in which all tasks waited for a device", &[], Counter),
    ("container_pressure_io_waiting_seconds_total", "Time in which at least one task waited for a device", &[], Counter),
    ("container_pressure_memory_stalled_seconds_total", "Time in which all tasks waited for memory", &[], Counter),
    ("container_pressure_memory_waiting_seconds_total", "Time in which at least one task waited for memory", &[], Counter),
    ("container_processes", "Processes", &[], Gauge),
    ("container_sockets", "Open sockets", &[], Gauge),
    ("container_spec_cpu_period", "Period of the CPU limit in microseconds", &[], Gauge),
    ("container_spec_cpu_quota", "CPU time allowed in a period, in microseconds", &[], Gauge),
    ("container_spec_cpu_shares", "Relative weight when CPU time is scarce", &[], Gauge),
    ("container_spec_memory_limit_bytes", "Memory limit", &[], Gauge),
    ("container_spec_memory_swap_limit_bytes", "Limit of memory and swap together", &[], Gauge),
    ("container_start_time_seconds", "Start time of the container", &[], Gauge),
];

/// The metrics that a runtime reports.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    own: &'static [Row],
}

impl Table {
    /// Creates a table of the common metrics and the runtime's own.
    pub const fn with(own: &'static [Row]) -> Self {
        Self { own }
    }

    /// Iterates over all metrics, in no particular order.
    pub fn rows(&self) -> impl Iterator<Item = &'static Row> {
        COMMON.iter().chain(self.own)
    }

    fn row(&self, name: &str) -> Option<&'static Row> {
        match COMMON.binary_search_by_key(&name, |row| row.0) {
            Ok(found) => COMMON.get(found),
            Err(_) => self.own.iter().find(|row| row.0 == name),
        }
    }

    /// Returns all metrics with their labels, sorted by name.
    pub fn descriptors(&self) -> Vec<MetricDescriptor> {
        let descriptor = |(name, help, extra, _): &Row| MetricDescriptor {
            name: (*name).to_owned(),
            help: (*help).to_owned(),
            label_keys: LABELS
                .iter()
                .chain(*extra)
                .map(ToString::to_string)
                .collect(),
        };
        let mut all: Vec<_> = self.rows().map(descriptor).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }
}

/// Samples of one pod or container.
#[derive(Debug)]
pub struct Samples {
    table: Table,
    labels: Arc<CommonLabels>,
    at: i64,
    metrics: Vec<Metric>,
}

impl Samples {
    /// Creates an empty set. The labels are in the order of [`LABELS`]; `at` is in nanoseconds.
    pub fn new(table: Table, labels: [String; LABELS.len()], at: i64) -> Self {
        Self {
            table,
            labels: Arc::new(CommonLabels::new(labels.into())),
            at,
            metrics: Vec::with_capacity(COMMON.len()),
        }
    }

    /// Returns the timestamp of new samples.
    pub fn at(&self) -> i64 {
        self.at
    }

    /// Sets the timestamp of the samples added from now on.
    pub fn set_at(&mut self, at: i64) {
        self.at = at;
    }

    /// Adds a sample of a metric without labels of its own.
    pub fn add(&mut self, name: &str, number: u64) {
        self.add_with(name, &[], number);
    }

    /// Adds a sample of a metric with these labels of its own.
    pub fn add_with(&mut self, name: &str, extra: &[&str], number: u64) {
        let row = self.table.row(name);
        debug_assert_eq!(row.map(|row| row.2.len()), Some(extra.len()), "{name}");
        let Some((name, .., kind)) = row else { return };
        let extra = extra.iter().map(ToString::to_string).collect();
        self.metrics.push(Metric {
            name: Cow::Borrowed(name),
            timestamp: self.at,
            metric_type: (*kind).into(),
            label_values: LabelValues::new(Arc::clone(&self.labels), extra),
            value: Some(UInt64Value { value: number }),
        });
    }

    /// Returns all samples.
    pub fn finish(self) -> Vec<Metric> {
        self.metrics
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_by_name() {
        // The lookup is a binary search.
        assert!(COMMON.is_sorted_by_key(|row| row.0));
        const OWN: Row = ("a_metric", "of one runtime", &[], Gauge);
        let table = Table::with(&[OWN]);
        for (name, ..) in table.rows() {
            assert_eq!(table.row(name).map(|row| row.0), Some(*name));
        }
        assert!(table.row("container_nothing").is_none());
    }
}
