//! The CRI configuration of a sandbox.

use orlop_cri_api::v1;

use super::hosts::{full_name, host_name};
use super::pod_resources::{overhead, pod_resources};
use super::security::{group_policy, groups, int64, namespaces, security_profile, selinux};
use crate::labels;
use crate::log_path::pod_directory;
use crate::pod::{Pod, ProfileKind};

/// Data of the node for a sandbox's configuration.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SandboxInput {
    /// The attempt number of the sandbox.
    pub attempt: u32,
    /// The directory with the logs of all pods.
    pub pod_logs_dir: String,
    /// The pod's cgroup, the parent of the sandbox's.
    pub cgroup_parent: String,
    /// The cluster's domain, for pods that use their FQDN as host name.
    pub domain: String,
    /// The pod's DNS configuration.
    pub dns: v1::DnsConfig,
    /// The pod's user namespace.
    pub user_namespace: Option<v1::UserNamespace>,
}

/// Builds the CRI configuration of a pod's sandbox.
pub fn sandbox_config(pod: &Pod, input: &SandboxInput) -> v1::PodSandboxConfig {
    let meta = &pod.metadata;
    let hostname = if pod.spec.host_network {
        String::new()
    } else {
        full_name(pod, &input.domain)
            .filter(|_| pod.spec.set_hostname_as_fqdn)
            .unwrap_or_else(|| host_name(pod))
    };
    v1::PodSandboxConfig {
        metadata: Some(v1::PodSandboxMetadata {
            name: meta.name.clone(),
            uid: meta.uid.clone(),
            namespace: meta.namespace.clone(),
            attempt: input.attempt,
        }),
        hostname,
        log_directory: format!("{}/{}", input.pod_logs_dir, pod_directory(pod)),
        dns_config: Some(input.dns.clone()),
        port_mappings: port_mappings(pod),
        labels: labels::sandbox_labels(pod).into_iter().collect(),
        annotations: meta.annotations.clone().into_iter().collect(),
        linux: Some(linux(pod, input)),
        windows: None,
    }
}

fn linux(pod: &Pod, input: &SandboxInput) -> v1::LinuxPodSandboxConfig {
    let context = &pod.spec.security_context;
    let privileged = pod
        .spec
        .init_and_regular()
        .any(|c| c.security_context.privileged == Some(true));
    v1::LinuxPodSandboxConfig {
        cgroup_parent: input.cgroup_parent.clone(),
        sysctls: context
            .sysctls
            .iter()
            .map(|s| (s.name.replace('/', "."), s.value.clone()))
            .collect(),
        security_context: Some(v1::LinuxSandboxSecurityContext {
            namespace_options: Some(namespaces(pod, None, input.user_namespace.as_ref())),
            selinux_options: context.se_linux_options.as_ref().map(selinux),
            run_as_user: context.run_as_user.map(int64),
            run_as_group: context.run_as_group.map(int64),
            supplemental_groups: groups(pod),
            supplemental_groups_policy: group_policy(pod).into(),
            privileged,
            // The sandbox runs no process of the pod, so the default profile is enough.
            seccomp: Some(security_profile(ProfileKind::RuntimeDefault, None)),
            ..v1::LinuxSandboxSecurityContext::default()
        }),
        overhead: Some(overhead(pod)),
        resources: Some(pod_resources(pod)),
    }
}

fn port_mappings(pod: &Pod) -> Vec<v1::PortMapping> {
    let ports = pod.spec.containers.iter().flat_map(|c| &c.ports);
    ports
        .map(|port| v1::PortMapping {
            protocol: match port.protocol.as_str() {
                "UDP" => v1::Protocol::Udp,
                "SCTP" => v1::Protocol::Sctp,
                _ => v1::Protocol::Tcp,
            }
            .into(),
            container_port: i32::from(port.container_port),
            host_port: port.host_port.map_or(0, i32::from),
            host_ip: port.host_ip.clone(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_sandbox_says_whose_it_is() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "web", "namespace": "n", "uid": "u", "annotations": {"a": "b"}},
            "spec": {
                "securityContext": {
                    "sysctls": [{"name": "net/core/somaxconn", "value": "9"}],
                    "fsGroup": 7, "supplementalGroups": [8]
                },
                "containers": [{"name": "c", "image": "i",
                    "ports": [{"containerPort": 53, "protocol": "UDP", "hostPort": 5353}],
                    "securityContext": {"privileged": true}}]
            }
        }))
        .unwrap();
        let input = SandboxInput {
            attempt: 2,
            pod_logs_dir: "/var/log/pods".to_owned(),
            ..SandboxInput::default()
        };
        let made = sandbox_config(&pod, &input);
        assert_eq!(made.hostname, "web");
        assert_eq!(made.log_directory, "/var/log/pods/n_web_u");
        assert_eq!(made.annotations["a"], "b");
        assert_eq!(made.metadata.unwrap().attempt, 2);
        let port = &made.port_mappings[0];
        assert_eq!((port.protocol(), port.host_port), (v1::Protocol::Udp, 5353));
        let linux = made.linux.unwrap();
        assert_eq!(linux.sysctls["net.core.somaxconn"], "9");
        let security = linux.security_context.unwrap();
        assert!(security.privileged);
        assert_eq!(security.supplemental_groups, [7, 8]);
        assert_eq!(
            security.seccomp.unwrap().profile_type(),
            v1::security_profile::ProfileType::RuntimeDefault
        );

        let mut on_host = pod;
        on_host.spec.host_network = true;
        assert_eq!(sandbox_config(&on_host, &input).hostname, "");
    }

    #[test]
    fn long_names_are_cut_at_63() {
        let name = format!("{}-{}", "a".repeat(62), "b".repeat(9));
        assert_eq!(crate::cri_config::hosts::truncated(&name), "a".repeat(62));
    }
}
