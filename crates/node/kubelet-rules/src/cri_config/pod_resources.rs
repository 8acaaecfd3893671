//! Resources of a pod as a whole.

use orlop_cri_api::v1;

use super::{cpu_quota, cpu_shares};
use crate::pod::{Container, Pod, Quantity};

const PERIOD: i64 = 100_000;

/// Returns a pod's total request of a resource, without overhead: its pod-level request, else the
/// sum of its containers and sidecars. An init container counts with the sidecars that run by then,
/// if that is more.
pub fn pod_request(pod: &Pod, name: &str) -> Quantity {
    let own = pod.spec.resources.as_ref().and_then(|r| r.request(name));
    own.unwrap_or_else(|| {
        total(pod, |c| Some(c.resources.request(name).unwrap_or_default())).unwrap_or_default()
    })
}

/// Returns a pod's total limit of a resource, without overhead; `None` if one of its containers has
/// no limit.
pub fn pod_limit(pod: &Pod, name: &str) -> Option<Quantity> {
    let own = pod.spec.resources.as_ref().and_then(|r| r.limit(name));
    own.or_else(|| total(pod, |c| c.resources.limit(name)))
}

/// Returns the pod's total resources for the runtime.
pub fn pod_resources(pod: &Pod) -> v1::LinuxContainerResources {
    v1::LinuxContainerResources {
        cpu_period: PERIOD,
        cpu_quota: cpu_quota(pod_limit(pod, "cpu").map_or(0, Quantity::milli)),
        cpu_shares: cpu_shares(pod_request(pod, "cpu").milli()),
        memory_limit_in_bytes: pod_limit(pod, "memory").map_or(0, Quantity::units),
        ..v1::LinuxContainerResources::default()
    }
}

/// Returns the pod's overhead for the runtime.
pub fn overhead(pod: &Pod) -> v1::LinuxContainerResources {
    let of = |name: &str| pod.spec.overhead.get(name).copied().unwrap_or_default();
    let cpu = of("cpu").milli();
    v1::LinuxContainerResources {
        cpu_period: PERIOD,
        cpu_quota: cpu_quota(cpu),
        cpu_shares: if cpu == 0 { 0 } else { cpu_shares(cpu) },
        memory_limit_in_bytes: of("memory").units(),
        ..v1::LinuxContainerResources::default()
    }
}

/// Sums an amount over the containers; `None` if one of them has no amount.
fn total(pod: &Pod, amount: impl Fn(&Container) -> Option<Quantity>) -> Option<Quantity> {
    let mut sidecars = Quantity::default();
    let mut most_init = Quantity::default();
    for container in &pod.spec.init_containers {
        let own = amount(container)?;
        if container.is_sidecar() {
            sidecars = sidecars.plus(own);
            most_init = most_init.or_more(sidecars);
        } else {
            most_init = most_init.or_more(sidecars.plus(own));
        }
    }
    let mut regular = sidecars;
    for container in &pod.spec.containers {
        regular = regular.plus(amount(container)?);
    }
    Some(regular.or_more(most_init))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sums_over_containers_and_the_hungriest_moment_of_initialization() {
        let container =
            |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}});
        let sidecar =
            |cpu: &str| json!({"restartPolicy": "Always", "resources": {"limits": {"cpu": cpu}}});
        let rows = [
            (
                json!({"containers": [container("1"), container("500m")]}),
                1500,
                Some(1500),
            ),
            (json!({"containers": [container("1"), {}]}), 1000, None),
            (
                json!({"initContainers": [container("3")], "containers": [container("1")]}),
                3000,
                Some(3000),
            ),
            (
                json!({"initContainers": [sidecar("1"), container("3"), sidecar("1")], "containers": [container("1")]}),
                4000,
                Some(4000),
            ),
            (
                json!({"initContainers": [container("1"), sidecar("2")], "containers": [container("2")]}),
                4000,
                Some(4000),
            ),
            (
                json!({"resources": {"limits": {"cpu": "2"}}, "containers": [{}]}),
                2000,
                Some(2000),
            ),
        ];
        for (spec, request, limit) in rows {
            let pod: Pod = serde_json::from_value(json!({ "spec": spec })).unwrap();
            assert_eq!(pod_request(&pod, "cpu").milli(), request, "{spec}");
            assert_eq!(pod_limit(&pod, "cpu").map(Quantity::milli), limit, "{spec}");
        }
    }
}
