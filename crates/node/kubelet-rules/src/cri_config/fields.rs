//! References of a manifest to its own pod (`fieldRef`, `resourceFieldRef`).

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::pod::{Container, FieldRef, Pod, Quantity, ResourceFieldRef};

/// Node properties that a manifest can refer to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// The node's name.
    pub node_name: String,
    /// The node's addresses, the primary one first.
    pub host_ips: Vec<IpAddr>,
    /// The pod's addresses, the primary one first.
    pub pod_ips: Vec<IpAddr>,
    /// Memory for pods in bytes: the value for a container without a limit.
    pub memory: u64,
    /// CPU for pods in millicores: the value for a container without a limit.
    pub cpu_milli: u64,
}

/// Resolves a `fieldRef`.
pub fn field(pod: &Pod, facts: &NodeFacts, reference: &FieldRef) -> Result<String, String> {
    let meta = &pod.metadata;
    let path = reference.field_path.as_str();
    if let Some((map, key)) = subscript(path) {
        let map = match map {
            "metadata.labels" => &meta.labels,
            "metadata.annotations" => &meta.annotations,
            _ => return Err(format!("the pod has no field {path:?}")),
        };
        return Ok(map.get(key).cloned().unwrap_or_default());
    }
    let list = |ips: &[IpAddr]| {
        let texts: Vec<_> = ips.iter().map(IpAddr::to_string).collect();
        texts.join(",")
    };
    let first = |ips: &[IpAddr]| ips.first().map(IpAddr::to_string).unwrap_or_default();
    Ok(match path {
        "metadata.name" => meta.name.clone(),
        "metadata.namespace" => meta.namespace.clone(),
        "metadata.uid" => meta.uid.clone(),
        "metadata.labels" => lines(&meta.labels),
        "metadata.annotations" => lines(&meta.annotations),
        "spec.nodeName" => facts.node_name.clone(),
        "spec.serviceAccountName" => pod.spec.service_account_name.clone(),
        "status.hostIP" => first(&facts.host_ips),
        "status.hostIPs" => list(&facts.host_ips),
        "status.podIP" => first(&facts.pod_ips),
        "status.podIPs" => list(&facts.pod_ips),
        _ => {
            return Err(format!(
                "the field {path:?} of the pod cannot be referenced"
            ));
        }
    })
}

/// Resolves a `resourceFieldRef`; `own` is the container that contains it, if any.
pub fn resource_field(
    pod: &Pod,
    own: Option<&Container>,
    facts: &NodeFacts,
    reference: &ResourceFieldRef,
) -> Result<String, String> {
    let container = if reference.container_name.is_empty() {
        own.ok_or("a resourceFieldRef of a volume needs a containerName")?
    } else {
        pod.spec
            .init_and_regular()
            .find(|c| c.name == reference.container_name)
            .ok_or_else(|| format!("the pod has no container {:?}", reference.container_name))?
    };
    let (list, name) = reference.resource.split_once('.').ok_or_else(|| {
        format!(
            "the resource {:?} is not of the form limits.cpu",
            reference.resource
        )
    })?;
    let of_node = match name {
        "cpu" => Quantity::from_milli(i64::try_from(facts.cpu_milli).unwrap_or(i64::MAX)),
        "memory" => Quantity::from_units(i64::try_from(facts.memory).unwrap_or(i64::MAX)),
        _ => Quantity::default(),
    };
    let amount = match list {
        "limits" => container.resources.limit(name).unwrap_or(of_node),
        "requests" => container.resources.request(name).unwrap_or_default(),
        _ => {
            return Err(format!(
                "the resource {:?} must begin with limits or requests",
                reference.resource
            ));
        }
    };
    let divisor = reference.divisor.filter(|d| !d.is_zero());
    Ok(amount
        .divided_up(divisor.unwrap_or(Quantity::from_units(1)))
        .to_string())
}

/// Splits `metadata.labels['app']` into its two parts.
fn subscript(path: &str) -> Option<(&str, &str)> {
    let (map, rest) = path.split_once("['")?;
    Some((map, rest.strip_suffix("']")?))
}

/// Formats a map as in the downward API: one `key="value"` per line.
fn lines(map: &BTreeMap<String, String>) -> String {
    let lines: Vec<_> = map
        .iter()
        .map(|(key, value)| format!("{key}={value:?}"))
        .collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod() -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "n", "uid": "u",
                         "labels": {"app": "a", "tier": "b \"c\""}, "annotations": {"x/y": "z"}},
            "spec": {"serviceAccountName": "sa", "containers": [
                {"name": "c", "resources": {"limits": {"cpu": "1500m"}, "requests": {"memory": "64Mi"}}}]},
        }))
        .unwrap()
    }

    #[test]
    fn fields_of_the_pod() {
        let facts = NodeFacts {
            node_name: "node".to_owned(),
            host_ips: vec!["192.0.2.1".parse().unwrap()],
            pod_ips: vec!["10.0.0.2".parse().unwrap(), "fd00::2".parse().unwrap()],
            ..NodeFacts::default()
        };
        let rows = [
            ("metadata.name", "p"),
            ("metadata.namespace", "n"),
            ("metadata.uid", "u"),
            ("metadata.labels['app']", "a"),
            ("metadata.labels['none']", ""),
            ("metadata.annotations['x/y']", "z"),
            ("metadata.labels", "app=\"a\"\ntier=\"b \\\"c\\\"\""),
            ("spec.nodeName", "node"),
            ("spec.serviceAccountName", "sa"),
            ("status.hostIP", "192.0.2.1"),
            ("status.podIP", "10.0.0.2"),
            ("status.podIPs", "10.0.0.2,fd00::2"),
        ];
        for (path, wanted) in rows {
            let reference = FieldRef {
                field_path: path.to_owned(),
            };
            assert_eq!(
                field(&pod(), &facts, &reference).as_deref(),
                Ok(wanted),
                "{path}"
            );
        }
        let unknown = FieldRef {
            field_path: "spec.tolerations".to_owned(),
        };
        assert!(field(&pod(), &facts, &unknown).is_err());
    }

    #[test]
    fn resources_of_a_container() {
        let facts = NodeFacts {
            memory: 1 << 30,
            cpu_milli: 4000,
            ..NodeFacts::default()
        };
        let rows = [
            ("limits.cpu", "", "2"),
            ("limits.cpu", "1m", "1500"),
            ("requests.cpu", "1m", "1500"),
            ("requests.memory", "1Mi", "64"),
            ("limits.memory", "1Mi", "1024"),
            ("limits.memory", "", "1073741824"),
            ("requests.ephemeral-storage", "", "0"),
        ];
        let pod = pod();
        for (resource, divisor, wanted) in rows {
            let reference = ResourceFieldRef {
                resource: resource.to_owned(),
                divisor: divisor.parse().ok(),
                ..ResourceFieldRef::default()
            };
            let own = pod.spec.containers.first();
            let got = resource_field(&pod, own, &facts, &reference);
            assert_eq!(got.as_deref(), Ok(wanted), "{resource} {divisor}");
        }
    }
}
