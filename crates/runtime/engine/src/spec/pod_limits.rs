//! The limits of a whole pod: the sum of its containers' limits and its overhead.

use orlop_cgroup::Limits;
use orlop_cri_api::v1::LinuxContainerResources;

use super::Error;
use super::input::HostFacts;
use super::resources::limits;

/// Returns the cgroup limits of a pod: the sum of these resources and this overhead. An overhead without a
/// limit adds nothing. A limit that the resources leave open is not set.
pub fn pod_limits(
    resources: Option<&LinuxContainerResources>,
    overhead: Option<&LinuxContainerResources>,
    host: &HostFacts,
) -> Result<Limits, Error> {
    let mut sum = resources.cloned().unwrap_or_default();
    if let Some(overhead) = overhead {
        sum.cpu_shares = sum.cpu_shares.saturating_add(overhead.cpu_shares);
        sum.cpu_quota = both(sum.cpu_quota, scaled_quota(overhead, sum.cpu_period));
        sum.memory_limit_in_bytes = both(sum.memory_limit_in_bytes, overhead.memory_limit_in_bytes);
    }
    // These warnings are about page sizes that this node does not have.
    let checked = limits(Some(&sum), host, None, "resources", &mut Vec::new())?;
    let cpu = checked.cpu.unwrap_or_default();
    let memory = checked.memory.unwrap_or_default();
    let unless_empty = |list: String| Some(list).filter(|list| !list.is_empty());
    Ok(Limits {
        cpu_shares: cpu.shares,
        cpu_quota: cpu.quota,
        cpu_period: cpu.period,
        cpuset_cpus: unless_empty(cpu.cpus),
        cpuset_mems: unless_empty(cpu.mems),
        memory: memory.limit,
        memory_and_swap: memory.swap,
        pids: None,
        hugepages: checked
            .hugepage_limits
            .into_iter()
            .map(|limit| (limit.page_size, limit.limit))
            .collect(),
        unified: checked.unified,
    })
}

/// Adds two limits. If either is absent (0) or unlimited (-1), returns the first unchanged.
fn both(limit: i64, overhead: i64) -> i64 {
    if limit > 0 && overhead > 0 {
        limit.saturating_add(overhead)
    } else {
        limit
    }
}

/// Returns the overhead's quota for the pod's period.
fn scaled_quota(overhead: &LinuxContainerResources, period: i64) -> i64 {
    let own = overhead.cpu_period;
    if period <= 0 || own <= 0 || own == period {
        return overhead.cpu_quota;
    }
    let scaled = i128::from(overhead.cpu_quota) * i128::from(period) / i128::from(own);
    i64::try_from(scaled).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::host::tests::facts;
    use super::*;

    #[test]
    fn overhead_comes_on_top() {
        let resources = LinuxContainerResources {
            cpu_shares: 512,
            cpu_quota: 50_000,
            cpu_period: 100_000,
            memory_limit_in_bytes: 1 << 26,
            ..Default::default()
        };
        let overhead = LinuxContainerResources {
            cpu_shares: 2,
            cpu_quota: 5_000,
            cpu_period: 50_000,
            memory_limit_in_bytes: 1 << 20,
            ..Default::default()
        };
        let limits = pod_limits(Some(&resources), Some(&overhead), &facts()).unwrap();
        assert_eq!(limits.cpu_shares, Some(514));
        assert_eq!(limits.cpu_quota, Some(60_000));
        assert_eq!(limits.memory, Some((1 << 26) + (1 << 20)));
    }

    #[test]
    fn no_limit_stays_none() {
        let unlimited = LinuxContainerResources {
            cpu_quota: -1,
            ..Default::default()
        };
        let overhead = LinuxContainerResources {
            cpu_quota: 5_000,
            memory_limit_in_bytes: 1 << 20,
            ..Default::default()
        };
        let limits = pod_limits(Some(&unlimited), Some(&overhead), &facts()).unwrap();
        assert_eq!((limits.cpu_quota, limits.memory), (Some(-1), None));
    }
}
