//! QoS classes of pods.

use crate::pod::{Container, Pod};

/// The lowest priority of node-critical pods (`system-node-critical`).
const NODE_CRITICAL: i32 = 2_000_001_000;
const GUARANTEED: i64 = -997;
const BEST_EFFORT: i64 = 1000;

/// The QoS class of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QosClass {
    /// Each container requests everything it may use.
    Guaranteed,
    /// Something is requested, but not everything.
    Burstable,
    /// Nothing is requested or limited.
    BestEffort,
}

/// Derives a pod's class from the CPU and memory of its init and regular containers.
pub fn qos_class(pod: &Pod) -> QosClass {
    let mut any = false;
    let mut all = true;
    for container in pod.spec.init_and_regular() {
        for name in ["cpu", "memory"] {
            let request = container.resources.request(name);
            let limit = container.resources.limit(name);
            any |= request.is_some() || limit.is_some();
            all &= limit.is_some() && request == limit;
        }
    }
    match (any, all) {
        (false, _) => QosClass::BestEffort,
        (true, true) => QosClass::Guaranteed,
        (true, false) => QosClass::Burstable,
    }
}

/// Returns the OOM score adjustment of a container on a node with `memory_capacity` bytes: a
/// smaller request gives a higher score. A sidecar is killed after the containers it serves.
pub fn oom_score_adj(pod: &Pod, container: &Container, memory_capacity: u64) -> i64 {
    if pod.spec.priority.is_some_and(|p| p >= NODE_CRITICAL) {
        return GUARANTEED;
    }
    match qos_class(pod) {
        QosClass::Guaranteed => return GUARANTEED,
        QosClass::BestEffort => return BEST_EFFORT,
        QosClass::Burstable => {}
    }
    let score = |c: &Container| {
        let request = c
            .resources
            .request("memory")
            .map_or(0, |q| q.units().max(0));
        let capacity = i128::from(memory_capacity.max(1));
        let share = i128::from(request) * 1000 / capacity;
        1000 - i64::try_from(share).unwrap_or(1000)
    };
    let mut own = score(container);
    let is_sidecar = container.is_sidecar()
        && pod
            .spec
            .init_containers
            .iter()
            .any(|c| c.name == container.name);
    if is_sidecar && let Some(most) = pod.spec.containers.iter().map(score).max() {
        own = own.min(most);
    }
    own.clamp(1000 + GUARANTEED, BEST_EFFORT - 1)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(resources: serde_json::Value) -> Pod {
        serde_json::from_value(json!({"spec": {
            "containers": [{"name": "c", "image": "i", "resources": resources}],
            "initContainers": [{"name": "s", "image": "i", "restartPolicy": "Always",
                "resources": {"limits": {"cpu": "1", "memory": "1"}}}]
        }}))
        .unwrap()
    }

    #[test]
    fn classes_and_scores() {
        for (resources, class, score, sidecar) in [
            (
                json!({"limits": {"cpu": "1", "memory": "1Gi"}}),
                QosClass::Guaranteed,
                -997,
                -997,
            ),
            (
                json!({"requests": {"memory": "1Gi"}}),
                QosClass::Burstable,
                750,
                750,
            ),
            (
                json!({"requests": {"memory": "4Gi"}}),
                QosClass::Burstable,
                3,
                3,
            ),
            (json!({}), QosClass::Burstable, 999, 999),
        ] {
            let pod = pod(resources);
            assert_eq!(qos_class(&pod), class);
            let of = |c| oom_score_adj(&pod, c, 4 << 30);
            assert_eq!(of(&pod.spec.containers[0]), score);
            assert_eq!(of(&pod.spec.init_containers[0]), sidecar);
        }
        let mut none = pod(json!({}));
        none.spec.init_containers.clear();
        assert_eq!(qos_class(&none), QosClass::BestEffort);
        assert_eq!(
            oom_score_adj(&none, &none.spec.containers[0], 4 << 30),
            1000
        );
        none.spec.priority = Some(NODE_CRITICAL);
        assert_eq!(
            oom_score_adj(&none, &none.spec.containers[0], 4 << 30),
            -997
        );
    }
}
