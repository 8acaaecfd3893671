//! Admission of pods, given the pods that are already running.

use std::collections::{BTreeMap, BTreeSet};

use orlop_kubelet_rules::cri_config::{QosClass, qos_class};
use orlop_kubelet_rules::pod::{Pod, ResourceList};

use super::demand::{amount, requests};

/// Why a pod is rejected: the kubelet's reason and message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rejection {
    pub(crate) reason: String,
    pub(crate) message: String,
}

/// The node properties that admission checks.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gate {
    /// The resources that pods can use.
    pub(crate) allocatable: ResourceList,
    /// The node's labels.
    pub(crate) labels: BTreeMap<String, String>,
    /// Unsafe sysctls that pods may set.
    pub(crate) unsafe_sysctls: Vec<String>,
    /// The node's pressure conditions, such as `MemoryPressure`.
    pub(crate) pressures: BTreeSet<&'static str>,
}

/// The lowest priority of node-critical pods (`system-node-critical`).
const NODE_CRITICAL: i32 = 2_000_001_000;

/// Safe sysctls, which every pod may set because they do not affect others; the list of Kubernetes.
const SAFE_SYSCTLS: [&str; 13] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.ipv4.tcp_notsent_lowat",
];

impl Gate {
    /// Admits a pod, given the pods that are already running (`others`), or returns why it is rejected.
    pub(crate) fn admit<'p>(
        &self,
        pod: &Pod,
        others: impl IntoIterator<Item = &'p Pod> + Clone,
    ) -> Result<(), Rejection> {
        self.pressure(pod)?;
        self.sysctls(pod)?;
        self.selector(pod)?;
        ports(pod, others.clone())?;
        self.resources(pod, others)
    }

    fn resources<'p>(
        &self,
        pod: &Pod,
        others: impl IntoIterator<Item = &'p Pod>,
    ) -> Result<(), Rejection> {
        let mut used = ResourceList::new();
        let mut pods = 0;
        for other in others {
            pods += 1;
            for (name, more) in requests(other) {
                let sum = amount(&used, &name).plus(more);
                used.insert(name, sum);
            }
        }
        let most = amount(&self.allocatable, "pods").units();
        if pods >= most {
            return Err(out_of("pods", 1, pods, most));
        }
        for (name, wanted) in requests(pod) {
            let used = amount(&used, &name);
            let there = amount(&self.allocatable, &name);
            if !wanted.is_zero() && wanted.plus(used) > there {
                // The kubelet counts CPUs in millicores.
                return Err(if name == "cpu" {
                    out_of(&name, wanted.milli(), used.milli(), there.milli())
                } else {
                    out_of(&name, wanted.units(), used.units(), there.units())
                });
            }
        }
        Ok(())
    }

    /// Checks that the node has the labels that the pod's node selector requires.
    pub(crate) fn selector(&self, pod: &Pod) -> Result<(), Rejection> {
        for (key, value) in &pod.spec.node_selector {
            if self.labels.get(key) != Some(value) {
                return Err(Rejection {
                    reason: "NodeAffinity".to_owned(),
                    message: format!(
                        "Predicate NodeAffinity failed: this node has no label {key}={value}; \
                         add it with --node-labels"
                    ),
                });
            }
        }
        Ok(())
    }

    fn sysctls(&self, pod: &Pod) -> Result<(), Rejection> {
        for sysctl in &pod.spec.security_context.sysctls {
            let name = sysctl.name.replace('/', ".");
            let allowed = |pattern: &String| {
                let pattern = pattern.replace('/', ".");
                pattern
                    .strip_suffix('*')
                    .map_or(pattern == name, |begin| name.starts_with(begin))
            };
            if !SAFE_SYSCTLS.contains(&name.as_str()) && !self.unsafe_sysctls.iter().any(allowed) {
                return Err(Rejection {
                    reason: "SysctlForbidden".to_owned(),
                    message: format!(
                        "forbidden sysctl: {name:?} not allowlisted; add it to allowedUnsafeSysctls"
                    ),
                });
            }
        }
        Ok(())
    }

    fn pressure(&self, pod: &Pod) -> Result<(), Rejection> {
        let critical = pod.spec.priority.is_some_and(|it| it >= NODE_CRITICAL);
        if critical || self.pressures.is_empty() {
            return Ok(());
        }
        let only_memory = self.pressures.iter().all(|it| *it == "MemoryPressure");
        if only_memory && qos_class(pod) != QosClass::BestEffort {
            return Ok(());
        }
        let pressures: Vec<_> = self.pressures.iter().copied().collect();
        Err(Rejection {
            reason: "Evicted".to_owned(),
            message: format!(
                "Pod was rejected: The node had condition: [{}]. ",
                pressures.join(" ")
            ),
        })
    }
}

fn out_of(name: &str, wanted: i64, used: i64, there: i64) -> Rejection {
    Rejection {
        reason: format!("OutOf{name}"),
        message: format!(
            "Pod was rejected: Node didn't have enough resource: {name}, requested: {wanted}, used: \
             {used}, capacity: {there}"
        ),
    }
}

fn ports<'p>(pod: &Pod, others: impl IntoIterator<Item = &'p Pod>) -> Result<(), Rejection> {
    let wanted = host_ports(pod);
    if wanted.is_empty() {
        return Ok(());
    }
    for other in others {
        for (port, protocol, address) in host_ports(other) {
            let every = |address: &str| matches!(address, "" | "0.0.0.0" | "::");
            let clash = wanted.iter().find(|(p, proto, a)| {
                *p == port && *proto == protocol && (*a == address || every(a) || every(address))
            });
            if clash.is_some() {
                let meta = &other.metadata;
                return Err(Rejection {
                    reason: "NodePorts".to_owned(),
                    message: format!(
                        "Predicate NodePorts failed: host port {port}/{protocol} is already used \
                         by pod {}/{}",
                        meta.namespace, meta.name
                    ),
                });
            }
        }
    }
    Ok(())
}

fn host_ports(pod: &Pod) -> Vec<(u16, &str, &str)> {
    let containers = pod
        .spec
        .init_containers
        .iter()
        .filter(|container| container.is_sidecar())
        .chain(&pod.spec.containers);
    let ports = containers.flat_map(|container| &container.ports);
    ports
        .filter_map(|port| {
            let number = port.host_port.filter(|it| *it != 0)?;
            Some((number, port.protocol.as_str(), port.host_ip.as_str()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use orlop_kubelet_rules::pod::Quantity;
    use serde_json::{Value, json};

    use super::*;

    fn pod(spec: Value) -> Pod {
        let mut spec = spec;
        spec["containers"] = json!([{
            "name": "c", "image": "i",
            "resources": {"requests": spec["requests"].take()},
            "ports": spec["ports"].take(),
        }]);
        serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec})).unwrap()
    }

    fn gate() -> Gate {
        let amounts = [("cpu", 2), ("memory", 1000), ("pods", 3)];
        let amounts = amounts.map(|(name, units)| (name.to_owned(), Quantity::from_units(units)));
        Gate {
            allocatable: amounts.into(),
            labels: [("zone".to_owned(), "a".to_owned())].into(),
            unsafe_sysctls: vec!["net.core.*".to_owned()],
            pressures: BTreeSet::new(),
        }
    }

    #[test]
    fn what_does_not_fit_is_not_let_in() {
        let one = json!({"requests": {"cpu": "1500m", "memory": "100"},
            "ports": [{"containerPort": 80, "hostPort": 80}]});
        let there = vec![pod(one)];
        let port = |ip: &str, protocol: &str| json!({"ports": [{"containerPort": 1, "hostPort": 80, "hostIP": ip, "protocol": protocol}]});
        for (spec, expected) in [
            (json!({}), ""),
            (json!({"requests": {"cpu": "500m"}}), ""),
            (json!({"requests": {"cpu": "501m"}}), "OutOfcpu"),
            (json!({"requests": {"memory": "901"}}), "OutOfmemory"),
            (
                json!({"requests": {"hugepages-2Mi": "2Mi"}}),
                "OutOfhugepages-2Mi",
            ),
            (json!({"overhead": {"cpu": "1"}}), "OutOfcpu"),
            (port("", "TCP"), "NodePorts"),
            (port("127.0.0.1", "TCP"), "NodePorts"),
            (port("", "UDP"), ""),
            (json!({"nodeSelector": {"zone": "a"}}), ""),
            (json!({"nodeSelector": {"zone": "b"}}), "NodeAffinity"),
            (
                json!({"securityContext": {"sysctls": [{"name": "net.core.somaxconn", "value": "1"}]}}),
                "",
            ),
            (
                json!({"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}}),
                "SysctlForbidden",
            ),
        ] {
            let found = gate().admit(&pod(spec.clone()), &there);
            let reason = found.err().map(|it| it.reason).unwrap_or_default();
            assert_eq!(reason, expected, "{spec}");
        }
        let full = vec![pod(json!({})), pod(json!({})), pod(json!({}))];
        let found = gate().admit(&pod(json!({})), &full).unwrap_err();
        assert_eq!(found.reason, "OutOfpods");
        assert!(
            found
                .message
                .ends_with("requested: 1, used: 3, capacity: 3")
        );
    }

    #[test]
    fn under_pressure_only_some_are_let_in() {
        for (pressure, spec, admitted) in [
            ("MemoryPressure", json!({}), false),
            ("MemoryPressure", json!({"requests": {"memory": "1"}}), true),
            ("DiskPressure", json!({"requests": {"memory": "1"}}), false),
            ("DiskPressure", json!({"priority": 2_000_001_000}), true),
        ] {
            let mut gate = gate();
            gate.pressures.insert(pressure);
            let found = gate.admit(&pod(spec.clone()), &[]);
            assert_eq!(found.is_ok(), admitted, "{pressure} {spec}");
        }
    }
}
