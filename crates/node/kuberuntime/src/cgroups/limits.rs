//! The limits of a pod's cgroup.

use orlop_kubelet_rules::cri_config::{
    MemoryQos, Protection, QosClass, cpu_quota, cpu_shares, pod_limit, pod_request, qos_class,
};
use orlop_kubelet_rules::pod::{Pod, Quantity};

/// The CFS quota period in microseconds.
pub(super) const PERIOD: i64 = 100_000;

/// The limits of a cgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) cpu_shares: i64,
    /// Microseconds of CPU per period; `None` for no limit.
    pub(super) cpu_quota: Option<i64>,
    /// Bytes; `None` for no limit.
    pub(super) memory: Option<i64>,
    pub(super) pids: Option<u64>,
    /// Memory protection (`memory.min`, `memory.low`); `None` leaves it unchanged.
    pub(super) protection: Option<Protection>,
}

impl Limits {
    /// Limits that set CPU shares only.
    pub(super) fn of_shares(milli: i64) -> Self {
        Self {
            cpu_shares: cpu_shares(milli),
            cpu_quota: None,
            memory: None,
            pids: None,
            protection: None,
        }
    }

    /// The limits of a pod: the sums over its containers plus its overhead. A resource is limited
    /// only if each container limits it.
    pub(super) fn of_pod(pod: &Pod, pids: Option<u64>, with_quota: bool) -> Self {
        let with_overhead = |name: &str, amount: Quantity| {
            let overhead = pod.spec.overhead.get(name).copied();
            amount.plus(overhead.unwrap_or_default())
        };
        let class = qos_class(pod);
        let request = with_overhead("cpu", pod_request(pod, "cpu")).milli();
        let limit = |name: &str| {
            pod_limit(pod, name)
                .filter(|_| class != QosClass::BestEffort)
                .map(|amount| with_overhead(name, amount))
        };
        Self {
            cpu_shares: cpu_shares(request),
            cpu_quota: limit("cpu")
                .filter(|_| with_quota)
                .map(|amount| cpu_quota(amount.milli())),
            memory: limit("memory").map(Quantity::units),
            pids,
            protection: None,
        }
    }

    /// Adds memory protection to the limits.
    pub(super) fn protected(mut self, protection: Option<Protection>) -> Self {
        self.protection = protection;
        self
    }

    /// Returns the memory protection of a pod.
    pub(super) fn protection_of(pod: &Pod, qos: &MemoryQos) -> Protection {
        let overhead = pod.spec.overhead.get("memory").copied().unwrap_or_default();
        let request = pod_request(pod, "memory").plus(overhead).units();
        qos.protection(qos_class(pod), request)
    }

    /// Converts CPU shares to a cgroup v2 weight on the curve of current runtimes: 1024 becomes
    /// 100.
    pub(super) fn weight(&self) -> i64 {
        let log = (self.cpu_shares.max(2) as f64).log2();
        let exponent = (log * log + 125.0 * log) / 612.0 - 7.0 / 34.0;
        (10_f64.powf(exponent).ceil() as i64).clamp(1, 10_000)
    }
}
