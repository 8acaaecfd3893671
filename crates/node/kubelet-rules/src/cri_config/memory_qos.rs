//! Memory protection and throttling of pods (`MemoryQoS`).

use orlop_cri_api::v1;

use super::{QosClass, qos_class};
use crate::pod::{Container, Pod, Quantity};

/// Settings of memory protection and throttling (`MemoryQoS`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MemoryQos {
    /// `memoryThrottlingFactor`: the share of the memory between request and limit above which the
    /// kernel throttles a container, before it is killed.
    pub throttling_factor: f64,
    /// `memoryReservationPolicy: TieredReservation`: requested memory is protected, with
    /// `memory.min` for Guaranteed pods and `memory.low` for Burstable ones.
    pub tiered: bool,
}

/// The memory protection of a cgroup.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Protection {
    /// `memory.min`.
    pub min: i64,
    /// `memory.low`.
    pub low: i64,
}

impl MemoryQos {
    /// Returns the protection of a request, for a pod of this class or one of its containers.
    pub fn protection(&self, class: QosClass, request: i64) -> Protection {
        match class {
            QosClass::Guaranteed if self.tiered => Protection {
                min: request,
                low: 0,
            },
            QosClass::Burstable if self.tiered => Protection {
                min: 0,
                low: request,
            },
            _ => Protection::default(),
        }
    }
}

/// Sets the memory protection and throttling of a container, for cgroup v2.
pub fn protect_memory(
    resources: &mut v1::LinuxContainerResources,
    pod: &Pod,
    container: &Container,
    qos: &MemoryQos,
    allocatable: u64,
    page: u64,
) {
    let units = |amount: Option<Quantity>| amount.map_or(0, Quantity::units);
    let request = units(container.resources.request("memory"));
    let limit = units(container.resources.limit("memory"));
    let mut set = |file: &str, value: i64| {
        let text = value.to_string();
        resources.unified.insert(file.to_owned(), text);
    };
    // Only requested memory is protected.
    let kept = qos.protection(qos_class(pod), request);
    if request == 0 || !qos.tiered {
        set("memory.min", 0);
        set("memory.low", 0);
    } else if kept.min > 0 {
        set("memory.min", kept.min);
    } else {
        set("memory.low", kept.low);
    }
    if request == limit {
        // The container has requested all memory it can use.
        return;
    }
    let most = match limit {
        0 => i64::try_from(allocatable).unwrap_or(i64::MAX),
        limit => limit,
    };
    let high = throttled_at(request, most, qos.throttling_factor, page);
    if most > 0 && high > request {
        set("memory.high", high);
    }
}

/// Returns the threshold between request and maximum, in whole pages.
fn throttled_at(request: i64, most: i64, factor: f64, page: u64) -> i64 {
    let page = i64::try_from(page.max(1)).unwrap_or(4096);
    let at = request as f64 + (most as f64 - request as f64) * factor;
    (at / page as f64).floor() as i64 * page
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const MIB: i64 = 1 << 20;

    #[test]
    fn what_is_kept_and_where_it_gets_slow() {
        let tiered = MemoryQos {
            throttling_factor: 0.9,
            tiered: true,
        };
        let plain = MemoryQos {
            tiered: false,
            ..tiered
        };
        let half = MemoryQos {
            throttling_factor: 0.5,
            ..plain
        };
        let guaranteed = json!({"limits": {"memory": "100Mi", "cpu": "1"}});
        let burstable = json!({"requests": {"memory": "100Mi"}, "limits": {"memory": "200Mi"}});
        let rows = [
            // policy, resources → memory.min, memory.low, memory.high
            (tiered, guaranteed.clone(), Some(100 * MIB), None, None),
            (plain, guaranteed, Some(0), Some(0), None),
            (
                tiered,
                burstable.clone(),
                None,
                Some(100 * MIB),
                Some(190 * MIB),
            ),
            (plain, burstable.clone(), Some(0), Some(0), Some(190 * MIB)),
            (half, burstable, Some(0), Some(0), Some(150 * MIB)),
            // Without a limit, the node's memory is the limit.
            (
                tiered,
                json!({"requests": {"memory": "100Mi"}}),
                None,
                Some(100 * MIB),
                Some(910 * MIB),
            ),
            // If only a limit is set, it is also the request.
            (
                tiered,
                json!({"limits": {"memory": "100Mi"}}),
                None,
                Some(100 * MIB),
                None,
            ),
            // Without request and limit, the formula is the same.
            (tiered, json!({}), Some(0), Some(0), None),
            (
                tiered,
                json!({"requests": {"cpu": "1"}}),
                Some(0),
                Some(0),
                None,
            ),
            // Less than a page above the request rounds to zero.
            (
                half,
                json!({"requests": {"memory": "4096"}, "limits": {"memory": "4100"}}),
                Some(0),
                Some(0),
                None,
            ),
            (
                half,
                json!({"requests": {"memory": "0"}, "limits": {"memory": "10000"}}),
                Some(0),
                Some(0),
                Some(4096),
            ),
        ];
        for (qos, resources, min, low, high) in rows {
            let pod: Pod = serde_json::from_value(json!({"spec": {
                "containers": [{"name": "c", "resources": resources}]}}))
            .unwrap();
            let mut made = v1::LinuxContainerResources::default();
            let allocatable = 1000 * MIB as u64;
            protect_memory(
                &mut made,
                &pod,
                &pod.spec.containers[0],
                &qos,
                allocatable,
                4096,
            );
            let got = |file: &str| made.unified.get(file).map(|it| it.parse::<i64>().unwrap());
            assert_eq!(
                (got("memory.min"), got("memory.low"), got("memory.high")),
                (min, low, high),
                "{qos:?} {resources}"
            );
        }
    }
}
