//! CRI resources of a container.

use orlop_cri_api::v1;

use super::oom_score_adj;
use crate::pod::{Container, Pod, Quantity};

/// The CFS quota period in microseconds.
const PERIOD: i64 = 100_000;

/// Returns the resources of a container. Each huge page size of the node gets a limit, so that a
/// size that is not requested cannot be used.
pub fn container_resources(
    pod: &Pod,
    container: &Container,
    memory_capacity: u64,
    hugepage_sizes: &[String],
) -> v1::LinuxContainerResources {
    let resources = &container.resources;
    let milli = |q: Option<Quantity>| q.map_or(0, Quantity::milli);
    v1::LinuxContainerResources {
        cpu_period: PERIOD,
        cpu_quota: cpu_quota(milli(resources.limit("cpu"))),
        cpu_shares: cpu_shares(milli(resources.request("cpu"))),
        memory_limit_in_bytes: resources.limit("memory").map_or(0, Quantity::units),
        oom_score_adj: oom_score_adj(pod, container, memory_capacity),
        hugepage_limits: hugepage_sizes
            .iter()
            .map(|size| v1::HugepageLimit {
                // The kernel's `2MB` is `hugepages-2Mi` in Kubernetes.
                page_size: size.clone(),
                limit: resources
                    .limit(&format!("hugepages-{}", size.replace('B', "i")))
                    .and_then(|q| u64::try_from(q.units()).ok())
                    .unwrap_or(0),
            })
            .collect(),
        ..v1::LinuxContainerResources::default()
    }
}

/// Converts millicores to CPU shares, within the kernel's bounds.
pub fn cpu_shares(milli: i64) -> i64 {
    (milli.saturating_mul(1024) / 1000).clamp(2, 262_144)
}

/// Converts millicores to a quota in microseconds per period; 0 for no limit.
pub fn cpu_quota(milli: i64) -> i64 {
    if milli <= 0 {
        return 0;
    }
    // The kernel's minimum quota is a millisecond.
    (milli.saturating_mul(PERIOD) / 1000).max(1000)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn shares_and_quotas() {
        for (milli, shares, quota) in [
            (0, 2, 0),
            (1, 2, 1000),
            (100, 102, 10_000),
            (1000, 1024, 100_000),
            (2500, 2560, 250_000),
            (1_000_000, 262_144, 100_000_000),
        ] {
            assert_eq!(
                (cpu_shares(milli), cpu_quota(milli)),
                (shares, quota),
                "{milli}"
            );
        }
    }

    #[test]
    fn every_hugepage_size_has_a_limit() {
        let container: Container = serde_json::from_value(json!({
            "name": "c", "resources": {"limits": {"hugepages-2Mi": "4Mi", "cpu": "500m", "memory": "1Ki"}}
        }))
        .unwrap();
        let sizes = ["2MB".to_owned(), "1GB".to_owned()];
        let made = container_resources(&Pod::default(), &container, 1 << 30, &sizes);
        let limits: Vec<_> = made.hugepage_limits.iter().map(|l| l.limit).collect();
        assert_eq!(limits, [4 << 20, 0]);
        // A missing request equals the limit.
        assert_eq!((made.cpu_shares, made.cpu_quota), (512, 50_000));
        assert_eq!(made.memory_limit_in_bytes, 1024);
    }
}
