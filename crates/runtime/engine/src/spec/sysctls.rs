//! Sysctls of a pod: only those that belong to its own namespaces.

use std::collections::{BTreeMap, HashMap};

use orlop_cri_api::v1;

use super::input::Policy;
use super::sysctl_names::{Scope, dotted, scope};
use super::userns::IdRanges;
use super::{BaseSpec, Error};

const FIELD: &str = "config.linux.sysctls";

/// Returns the sysctls of a pod with its own namespaces, by dotted name: those requested, and those that
/// the node's configuration adds.
///
/// A sysctl with an effect beyond the pod is refused for every pod.
pub fn of_pod(
    config: &v1::PodSandboxConfig,
    policy: &Policy,
    base: Option<&BaseSpec>,
) -> Result<BTreeMap<String, String>, Error> {
    let linux = config.linux.as_ref();
    let options = linux
        .and_then(|linux| linux.security_context.as_ref())
        .and_then(|security| security.namespace_options.as_ref());
    let node = i32::from(v1::NamespaceMode::Node);
    let own_network = options.is_none_or(|options| options.network != node);
    let own_ipc = options.is_none_or(|options| options.ipc != node);
    let empty = HashMap::new();
    let mut settings = defaults(policy, base, own_network, own_ipc)?;
    for (name, value) in linux.map_or(&empty, |linux| &linux.sysctls) {
        let name = dotted(name)?;
        if value.contains(['\0', '\n']) {
            let problem = format!("the value of {name} contains a line break or a NUL character");
            return Err(Error::invalid(FIELD, problem));
        }
        match scope(&name) {
            // A pod has its own host name exactly if it has its own network.
            Some(Scope::Network | Scope::HostName) if own_network => {}
            Some(Scope::Ipc) if own_ipc => {}
            Some(_) => {
                let problem = format!(
                    "{name} would change the node, because the pod shares the node's namespace"
                );
                return Err(Error::invalid(FIELD, problem));
            }
            None => {
                let problem = format!("{name} is not a namespaced kernel parameter");
                return Err(Error::invalid(FIELD, problem));
            }
        }
        settings.insert(name, value.clone());
    }
    if own_network {
        let mut default = |wanted: bool, name: &str, value: &str| {
            if wanted {
                settings
                    .entry(name.to_owned())
                    .or_insert_with(|| value.to_owned());
            }
        };
        default(
            policy.unprivileged_ports,
            "net.ipv4.ip_unprivileged_port_start",
            "0",
        );
        // In a user namespace the groups of this range may not exist.
        let ping = policy.unprivileged_icmp && IdRanges::parse(options)?.is_none();
        default(ping, "net.ipv4.ping_group_range", "0 2147483647");
    }
    Ok(settings)
}

/// Returns the configured sysctls that belong to one of the pod's own namespaces.
fn defaults(
    policy: &Policy,
    base: Option<&BaseSpec>,
    own_network: bool,
    own_ipc: bool,
) -> Result<BTreeMap<String, String>, Error> {
    let mut settings = BTreeMap::new();
    let of_base = base.into_iter().flat_map(BaseSpec::sysctls);
    for (name, value) in policy.sysctls.iter().chain(of_base) {
        let name = dotted(name)?;
        let own = match scope(&name) {
            Some(Scope::Network | Scope::HostName) => own_network,
            Some(Scope::Ipc) => own_ipc,
            None => {
                let problem =
                    format!("{name} is configured, but is not a namespaced kernel parameter");
                return Err(Error::unmet(FIELD, problem));
            }
        };
        if own {
            settings.insert(name, value.clone());
        }
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(
        name: &str,
        value: &str,
        network: v1::NamespaceMode,
        ipc: v1::NamespaceMode,
    ) -> v1::PodSandboxConfig {
        v1::PodSandboxConfig {
            linux: Some(v1::LinuxPodSandboxConfig {
                sysctls: HashMap::from([(name.to_owned(), value.to_owned())]),
                security_context: Some(v1::LinuxSandboxSecurityContext {
                    namespace_options: Some(v1::NamespaceOption {
                        network: network.into(),
                        ipc: ipc.into(),
                        ..Default::default()
                    }),
                    ..Default::default()
                }),
                ..Default::default()
            }),
            ..Default::default()
        }
    }

    #[test]
    fn only_settings_of_the_pods_own_namespaces_pass() {
        use v1::NamespaceMode::{Node, Pod};
        for (name, network, ipc, passes) in [
            ("net.core.somaxconn", Pod, Node, true),
            ("net.core.somaxconn", Node, Pod, false),
            ("net/ipv4/tcp_syncookies", Pod, Pod, true),
            ("kernel.shm_rmid_forced", Node, Pod, true),
            ("kernel.sem", Pod, Node, false),
            ("fs.mqueue.msg_max", Pod, Pod, true),
            ("kernel.core_pattern", Pod, Pod, false),
            ("vm.swappiness", Pod, Pod, false),
            ("kernel.hostname", Pod, Pod, false),
            ("net", Pod, Pod, false),
            ("net../../kernel/core_pattern", Pod, Pod, false),
            ("net.ipv4.x+kernel.core_pattern", Pod, Pod, false),
            ("kernel.shm_rmid_forced/../core_pattern", Pod, Pod, false),
        ] {
            let result = of_pod(&pod(name, "1", network, ipc), &Policy::default(), None);
            assert_eq!(result.is_ok(), passes, "{name} {result:?}");
        }
    }

    #[test]
    fn a_value_is_one_line() {
        use v1::NamespaceMode::Pod;
        let bad = pod("net.core.somaxconn", "1\n2", Pod, Pod);
        assert!(of_pod(&bad, &Policy::default(), None).is_err());
    }

    #[test]
    fn a_device_with_a_dot_keeps_it() {
        use v1::NamespaceMode::Pod;
        let config = pod("net/ipv4/conf/eth0.100/rp_filter", "0", Pod, Pod);
        let settings = of_pod(&config, &Policy::default(), None).unwrap();
        assert!(
            settings.contains_key("net.ipv4.conf.eth0/100.rp_filter"),
            "{settings:?}"
        );
    }

    #[test]
    fn the_nodes_defaults_yield_to_the_request() {
        use v1::NamespaceMode::{Node, Pod};
        let policy = Policy {
            unprivileged_ports: true,
            unprivileged_icmp: true,
            ..Policy::default()
        };
        let name = "net.ipv4.ip_unprivileged_port_start";
        let settings = of_pod(&pod(name, "80", Pod, Pod), &policy, None).unwrap();
        assert_eq!(settings[name], "80");
        assert_eq!(settings["net.ipv4.ping_group_range"], "0 2147483647");
        let shared = pod("kernel.sem", "1", Node, Pod);
        assert_eq!(of_pod(&shared, &policy, None).unwrap().len(), 1);
    }
}
