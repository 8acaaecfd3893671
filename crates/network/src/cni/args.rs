//! What is told to every plugin beside its configuration.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Attachment;

/// `CNI_ARGS` and the capabilities' arguments, from an attachment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RuntimeArgs {
    /// `KEY`, `value` pairs in order.
    pub cni_args: Vec<(String, String)>,
    /// Values by capability, offered to plugins that declare it.
    pub capability_args: BTreeMap<String, Value>,
}

impl RuntimeArgs {
    /// The arguments of a pod, as Kubernetes sets them.
    pub fn of(pod: &Attachment) -> Self {
        let mut cni_args = vec![
            ("IgnoreUnknown".to_owned(), "1".to_owned()),
            ("K8S_POD_NAMESPACE".to_owned(), pod.pod_namespace.clone()),
            ("K8S_POD_NAME".to_owned(), pod.pod_name.clone()),
            ("K8S_POD_INFRA_CONTAINER_ID".to_owned(), pod.id.to_string()),
            ("K8S_POD_UID".to_owned(), pod.pod_uid.clone()),
        ];
        cni_args.extend(
            pod.extra_args
                .iter()
                .map(|(key, value)| (key.clone(), value.clone())),
        );
        // A value with the separator would smuggle in further arguments.
        cni_args.retain(|(key, value)| !key.contains([';', '=']) && !value.contains(';'));
        Self {
            cni_args,
            capability_args: capability_args(pod),
        }
    }

    /// `CNI_ARGS` as plugins read it.
    pub fn cni_args_text(&self) -> String {
        let pairs: Vec<_> = self
            .cni_args
            .iter()
            .map(|(k, v)| format!("{k}={v}"))
            .collect();
        pairs.join(";")
    }
}

fn capability_args(pod: &Attachment) -> BTreeMap<String, Value> {
    let mut args = BTreeMap::new();
    let mut put = |name: &str, value: Value| args.insert(name.to_owned(), value);
    if !pod.port_mappings.is_empty() {
        put("portMappings", json!(pod.port_mappings));
    }
    if let Some(bandwidth) = pod.bandwidth {
        put("bandwidth", json!(bandwidth));
    }
    if let Some(dns) = &pod.dns {
        // The capability's keys are not those of a result's DNS section.
        put(
            "dns",
            json!({ "servers": dns.nameservers, "searches": dns.search, "options": dns.options }),
        );
    }
    if !pod.ips.is_empty() {
        put("ips", json!(pod.ips));
    }
    if let Some(mac) = pod.mac {
        put("mac", json!(mac));
    }
    if !pod.aliases.is_empty() {
        put("aliases", json!(pod.aliases));
    }
    if let Some(guid) = &pod.infiniband_guid {
        put("infinibandGUID", json!(guid));
    }
    if let Some(path) = &pod.cgroup_path {
        put("cgroupPath", json!(path));
    }
    if !pod.annotations.is_empty() {
        put("io.kubernetes.cri.pod-annotations", json!(pod.annotations));
    }
    args
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubernetes_arguments_in_their_order() {
        let mut pod = Attachment::new("abc".parse().unwrap(), "/x");
        pod.pod_name = "web".into();
        pod.pod_namespace = "default".into();
        pod.pod_uid = "u-1".into();
        pod.extra_args
            .insert("EVIL".into(), "1;K8S_POD_NAME=other".into());
        assert_eq!(
            RuntimeArgs::of(&pod).cni_args_text(),
            "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=web;\
             K8S_POD_INFRA_CONTAINER_ID=abc;K8S_POD_UID=u-1"
        );
        assert!(RuntimeArgs::of(&pod).capability_args.is_empty());
    }
}
