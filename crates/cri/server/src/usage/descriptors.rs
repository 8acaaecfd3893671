//! Descriptors of the supported metrics.

use orlop_cri_api::pod_metrics::Table;
use orlop_cri_api::v1::MetricDescriptor;
use orlop_cri_api::v1::MetricType::Gauge;

#[rustfmt::skip]
/// All supported metrics.
pub const TABLE: Table = Table::with(&[
    ("container_cpu_load_average_10s", "Average number of runnable tasks over the last 10 seconds, times 1000", &[], Gauge),
    ("container_cpu_load_d_average_10s", "Average number of uninterruptible tasks over the last 10 seconds, times 1000", &[], Gauge),
    ("container_hugetlb_max_usage_bytes", "Maximum usage of huge pages in bytes", &["pagesize"], Gauge),
    ("container_spec_memory_reservation_limit_bytes", "Memory that the container keeps under memory pressure", &[], Gauge),
    ("container_tasks_state", "Processes and threads by state", &["state"], Gauge),
    ("container_threads", "Threads", &[], Gauge),
    ("container_threads_max", "Limit of threads; 0 means no limit", &[], Gauge),
    ("container_ulimits_soft", "Soft limits of the first process; the largest number means no limit", &["ulimit"], Gauge),
]);

/// Returns all metrics with their labels.
pub fn descriptors() -> Vec<MetricDescriptor> {
    TABLE.descriptors()
}

#[cfg(test)]
mod tests {
    use orlop_cri_api::v1::MetricType::Counter;

    use super::*;

    #[test]
    fn names_are_sorted_and_unlike() {
        let all = TABLE.descriptors();
        assert!(all.windows(2).all(|pair| pair[0].name < pair[1].name));
    }

    #[test]
    fn counters_are_called_totals() {
        for (name, _, _, kind) in TABLE.rows() {
            // cAdvisor's names are older than the rule.
            if ["container_memory_failcnt", "container_fs_inodes_total"].contains(name) {
                continue;
            }
            assert_eq!(*kind == Counter, name.ends_with("_total"), "{name}");
        }
    }
}
