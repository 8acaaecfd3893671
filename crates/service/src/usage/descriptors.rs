//! The metrics there are.

use orlop_cri::pod_metrics::Table;
use orlop_cri::v1::MetricDescriptor;
use orlop_cri::v1::MetricType::Gauge;

#[rustfmt::skip]
/// All metrics.
pub const TABLE: Table = Table::with(&[
    ("container_cpu_load_average_10s", "Thousandths of tasks that wanted to run, over the last 10 seconds", &[], Gauge),
    ("container_cpu_load_d_average_10s", "Thousandths of tasks that could not be disturbed, over the last 10 seconds", &[], Gauge),
    ("container_hugetlb_max_usage_bytes", "Most huge pages in use at a time", &["pagesize"], Gauge),
    ("container_spec_memory_reservation_limit_bytes", "Memory left to the container under pressure", &[], Gauge),
    ("container_tasks_state", "Processes and threads in a state", &["state"], Gauge),
    ("container_threads", "Threads", &[], Gauge),
    ("container_threads_max", "Threads that are allowed; 0 means any number", &[], Gauge),
    ("container_ulimits_soft", "Soft limits of the first process; -1 is shown as the largest number", &["ulimit"], Gauge),
]);

/// All metrics with their labels.
pub fn descriptors() -> Vec<MetricDescriptor> {
    TABLE.descriptors()
}

#[cfg(test)]
mod tests {
    use orlop_cri::v1::MetricType::Counter;

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
