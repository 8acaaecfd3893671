//! The pod configuration from the kubelet: the parts of `PodSandboxConfig` that concern the pod itself.

use std::fmt::Write as _;

use orlop_cri_api::v1::{DnsConfig, NamespaceMode, PodSandboxConfig};

use crate::error::{Result, unknown};
use crate::pod::{Space, Wanted};

/// Returns the content of `/etc/resolv.conf` for the pod's containers; `None` if the pod has no DNS configuration.
pub(super) fn resolv_conf(dns: &DnsConfig) -> Option<String> {
    let mut lines = String::new();
    for (word, values) in [("search", &dns.searches), ("options", &dns.options)] {
        if !values.is_empty() {
            let _ = writeln!(lines, "{word} {}", values.join(" "));
        }
    }
    for server in &dns.servers {
        let _ = writeln!(lines, "nameserver {server}");
    }
    (!lines.is_empty()).then_some(lines)
}

/// Builds the pod's configuration with this network namespace and shared memory size.
pub(super) fn wanted(
    id: &str,
    config: &PodSandboxConfig,
    network: &str,
    shm_size: u64,
) -> Result<Wanted> {
    let linux = config.linux.clone().unwrap_or_default();
    let security = linux.security_context.unwrap_or_default();
    let namespaces = security.namespace_options.unwrap_or_default();
    let users = namespaces.userns_options.as_ref();
    if users.is_some_and(|users| {
        users.mode() == NamespaceMode::Pod && !(users.uids.is_empty() && users.gids.is_empty())
    }) {
        return Err(unknown(
            "a pod with its own user namespace needs sandboxer = \"podsandbox\" in containerd's \
             configuration of the runtime handler, not \"shim\"",
        ));
    }
    let own_unless_hosts = |mode| match mode {
        NamespaceMode::Node => Space::Hosts,
        _ => Space::Own,
    };
    let is_hosts_network = namespaces.network() == NamespaceMode::Node;
    let parent = linux.cgroup_parent;
    Ok(Wanted {
        network: match network {
            _ if is_hosts_network => Space::Hosts,
            "" => Space::Own,
            path => Space::At(path.into()),
        },
        ipc: own_unless_hosts(namespaces.ipc()),
        // The same rule as in containerd.
        uts: own_unless_hosts(namespaces.network()),
        // Containers have their own PID namespace unless they share the pod's.
        pid: if namespaces.pid() == NamespaceMode::Pod {
            Space::Own
        } else {
            Space::Hosts
        },
        hostname: config.hostname.clone(),
        sysctls: linux.sysctls.into_iter().collect(),
        cgroups_path: match parent.as_str() {
            "" => String::new(),
            slice if slice.strip_suffix(".slice").is_some() => {
                let name = slice.rsplit('/').next().unwrap_or(slice);
                format!("{name}:cri-containerd:{id}")
            }
            parent => format!("{parent}/{id}"),
        },
        shm: (namespaces.ipc() != NamespaceMode::Node).then_some(shm_size),
    })
}

#[cfg(test)]
mod tests {
    use orlop_containerd_api::Message;
    use orlop_cri_api::v1::{
        DnsConfig, IdMapping, LinuxPodSandboxConfig, LinuxSandboxSecurityContext, NamespaceMode,
        NamespaceOption, PodSandboxConfig, UserNamespace,
    };

    use super::{resolv_conf, wanted};
    use crate::pod::Space;

    fn config(namespaces: NamespaceOption) -> PodSandboxConfig {
        PodSandboxConfig {
            hostname: "web".into(),
            dns_config: Some(DnsConfig {
                servers: vec!["10.0.0.1".into()],
                searches: vec!["a".into(), "b".into()],
                ..DnsConfig::default()
            }),
            linux: Some(LinuxPodSandboxConfig {
                cgroup_parent: "/pods/p".into(),
                security_context: Some(LinuxSandboxSecurityContext {
                    namespace_options: Some(namespaces),
                    ..LinuxSandboxSecurityContext::default()
                }),
                sysctls: [("net.a".to_owned(), "1".to_owned())].into(),
                ..LinuxPodSandboxConfig::default()
            }),
            ..PodSandboxConfig::default()
        }
    }

    fn pid_of_container() -> NamespaceOption {
        NamespaceOption {
            pid: NamespaceMode::Container.into(),
            ..NamespaceOption::default()
        }
    }

    #[test]
    fn fuzzed_pods_do_not_break_the_reader() {
        orlop_testkit::Fuzz::new()
            .example(config(pid_of_container()).encode_to_vec())
            .words([&[0xff; 9][..], &[0x42, 0xff, 0x7f], b".slice", b"/"])
            .run(|input| {
                if let Ok(config) = PodSandboxConfig::decode(input) {
                    let _ = wanted("p1", &config, "", 7);
                    let _ = config.dns_config.as_ref().map(resolv_conf);
                }
            });
    }

    #[test]
    fn a_pod_is_what_is_asked_for() {
        let config = config(pid_of_container());
        let pod = wanted("p1", &config, "/netns/x", 7).unwrap();
        assert_eq!(pod.network, Space::At("/netns/x".into()));
        assert_eq!((&pod.ipc, &pod.pid), (&Space::Own, &Space::Hosts));
        assert_eq!((&*pod.hostname, &*pod.cgroups_path), ("web", "/pods/p/p1"));
        assert_eq!(pod.sysctls, [("net.a".into(), "1".into())]);
        assert_eq!(pod.shm, Some(7));
        let dns = resolv_conf(&config.dns_config.unwrap()).unwrap();
        assert_eq!(dns, "search a b\nnameserver 10.0.0.1\n");
    }

    #[test]
    fn users_of_its_own_are_refused() {
        let users = UserNamespace {
            uids: vec![IdMapping {
                host_id: 65536,
                ..IdMapping::default()
            }],
            ..UserNamespace::default()
        };
        let config = config(NamespaceOption {
            userns_options: Some(users),
            ..NamespaceOption::default()
        });
        assert!(wanted("p", &config, "", 7).is_err());
    }
}
