//! Memory that is kept for a pod, and from when on it is slowed down (`MemoryQoS`).

use orlop_cri_api::v1;

use super::{QosClass, qos_class};
use crate::pod::{Container, Pod, Quantity};

/// What memory is kept for whom, and from when on a container is slowed down (`MemoryQoS`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MemoryQos {
    /// `memoryThrottlingFactor`: the part of what a container may have above its request from which
    /// on it must give memory back, instead of growing until it is killed.
    pub throttling_factor: f64,
    /// `memoryReservationPolicy: TieredReservation`: what was asked for is kept, firmly for
    /// Guaranteed pods and if possible for Burstable ones.
    pub tiered: bool,
}

/// What is kept for a cgroup.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Protection {
    /// `memory.min`.
    pub min: i64,
    /// `memory.low`.
    pub low: i64,
}

impl MemoryQos {
    /// What is kept of a request for a pod of some class, or for one of its containers.
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

/// Tells the runtime what is kept for a container and where it is slowed down. This is for cgroups
/// of version 2.
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
    // What a container does not ask for it may have all the same: only a request is kept.
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
        // All it may have is its own.
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

/// Between a request and the most that there is, in whole pages.
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
            // Without a limit the node is the limit.
            (
                tiered,
                json!({"requests": {"memory": "100Mi"}}),
                None,
                Some(100 * MIB),
                Some(910 * MIB),
            ),
            // The request of who names a limit alone is the limit.
            (
                tiered,
                json!({"limits": {"memory": "100Mi"}}),
                None,
                Some(100 * MIB),
                None,
            ),
            // Nothing asked for, no limit: as far as the formula goes, that is no difference.
            (tiered, json!({}), Some(0), Some(0), None),
            (
                tiered,
                json!({"requests": {"cpu": "1"}}),
                Some(0),
                Some(0),
                None,
            ),
            // Less than a page above the request is nothing.
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
