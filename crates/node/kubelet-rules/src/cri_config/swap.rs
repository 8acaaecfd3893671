//! Swap limits of containers.

use orlop_cri_api::v1;

use super::{QosClass, qos_class};
use crate::pod::{Container, Pod, Quantity};

/// Pods with at least this priority do not swap, because the node depends on them.
const CRITICAL: i32 = 2_000_000_000;

/// How much swap containers may use (`memorySwap.swapBehavior`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SwapBehavior {
    /// Containers do not swap.
    #[default]
    NoSwap,
    /// Containers of Burstable pods get swap in proportion to their memory request.
    LimitedSwap,
}

/// The node's memory, swap and swap behavior.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SwapFacts {
    /// How much swap containers may use.
    pub behavior: SwapBehavior,
    /// The node's memory in bytes.
    pub memory: u64,
    /// The node's swap in bytes.
    pub swap: u64,
    /// Whether the kernel can limit the swap of a cgroup.
    pub can_limit: bool,
    /// Whether the node has cgroup v2.
    pub unified: bool,
}

/// Sets the swap limit of a container, if the kernel supports it.
pub fn limit_swap(
    resources: &mut v1::LinuxContainerResources,
    pod: &Pod,
    container: &Container,
    facts: &SwapFacts,
) {
    if !facts.can_limit {
        return;
    }
    if facts.unified {
        let allowance = allowance(pod, container, facts);
        resources
            .unified
            .insert("memory.swap.max".to_owned(), allowance.to_string());
    } else {
        // On cgroup v1, the limit is for memory and swap together; without swap accounting it is
        // ignored.
        resources.memory_swap_limit_in_bytes = resources.memory_limit_in_bytes;
    }
}

fn allowance(pod: &Pod, container: &Container, facts: &SwapFacts) -> u64 {
    let request = container.resources.request("memory").unwrap_or_default();
    let all_of_it = container.resources.limit("memory") == Some(request);
    let may = facts.behavior == SwapBehavior::LimitedSwap
        && qos_class(pod) == QosClass::Burstable
        && pod.spec.priority.unwrap_or(0) < CRITICAL
        && request != Quantity::default()
        && !all_of_it;
    if !may || facts.memory == 0 {
        return 0;
    }
    let request = u128::try_from(request.units()).unwrap_or(0);
    let share = request * u128::from(facts.swap) / u128::from(facts.memory);
    u64::try_from(share).unwrap_or(u64::MAX).min(facts.swap)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn who_may_swap_how_much() {
        const GIB: u64 = 1 << 30;
        let limited = SwapFacts {
            behavior: SwapBehavior::LimitedSwap,
            memory: 8 * GIB,
            swap: 4 * GIB,
            can_limit: true,
            unified: true,
        };
        let none = SwapFacts {
            behavior: SwapBehavior::NoSwap,
            ..limited
        };
        for (facts, priority, resources, expected) in [
            (limited, 0, json!({"requests": {"memory": "1Gi"}}), GIB / 2),
            (
                limited,
                0,
                json!({"requests": {"memory": "1Gi"}, "limits": {"memory": "2Gi"}}),
                GIB / 2,
            ),
            (none, 0, json!({"requests": {"memory": "1Gi"}}), 0),
            (limited, 0, json!({}), 0),
            (limited, 0, json!({"requests": {"cpu": "1"}}), 0),
            (
                limited,
                0,
                json!({"requests": {"memory": "1Gi", "cpu": "1"}, "limits": {"memory": "1Gi"}}),
                0,
            ),
            (limited, CRITICAL, json!({"requests": {"memory": "1Gi"}}), 0),
            (
                limited,
                0,
                json!({"requests": {"memory": "100Gi"}}),
                4 * GIB,
            ),
        ] {
            let pod: Pod = serde_json::from_value(json!({"spec": {
                "priority": priority, "containers": [{"name": "c", "resources": resources}]}}))
            .unwrap();
            let mut made = v1::LinuxContainerResources::default();
            limit_swap(&mut made, &pod, &pod.spec.containers[0], &facts);
            assert_eq!(
                made.unified["memory.swap.max"],
                expected.to_string(),
                "{resources}"
            );
        }
    }

    #[test]
    fn on_the_older_cgroups_the_limit_counts_both() {
        let facts = SwapFacts {
            can_limit: true,
            ..SwapFacts::default()
        };
        let mut made = v1::LinuxContainerResources {
            memory_limit_in_bytes: 7,
            ..v1::LinuxContainerResources::default()
        };
        let (pod, container) = (Pod::default(), Container::default());
        limit_swap(&mut made, &pod, &container, &facts);
        assert_eq!(
            (made.memory_swap_limit_in_bytes, made.unified.len()),
            (7, 0)
        );
        made.memory_swap_limit_in_bytes = 0;
        limit_swap(&mut made, &pod, &container, &SwapFacts::default());
        assert_eq!(made.memory_swap_limit_in_bytes, 0);
    }
}
