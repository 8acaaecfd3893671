//! Translation of a pod sandbox configuration: the container that holds a pod's namespaces.

use std::collections::BTreeMap;

use orlop_cgroup::Driver;
use orlop_cri_api::v1::{
    LinuxContainerSecurityContext, LinuxPodSandboxConfig, LinuxSandboxSecurityContext,
    PodSandboxConfig, PortMapping, Protocol,
};

use super::{namespaces, pause_seccomp, security};
use crate::config::{Config, NetworkPlugin};
use crate::docker::types::{
    ContainerConfig, CreateBody, HostConfig, Info, PortBinding, Resources, RestartPolicy,
};
use crate::error::{Error, Result};
use crate::{labels, limits, names, pause};

/// The pause process needs almost no CPU time (the kernel's minimum is 2).
const CPU_SHARES: i64 = 2;
/// The OOM killer takes nearly every other process first, because the pause process holds the pod's namespaces. The
/// engine and the kubelet are protected even more.
const OOM_SCORE_ADJ: i64 = -998;

/// Input of [`sandbox`] that is not in the request.
pub(crate) struct Around<'a> {
    pub(crate) config: &'a Config,
    pub(crate) info: &'a Info,
    pub(crate) driver: Driver,
    pub(crate) oom_floor: Option<i64>,
}

/// Translates a pod sandbox configuration for the engine.
pub(crate) fn sandbox(
    pod: &PodSandboxConfig,
    handler: &str,
    image: &str,
    around: &Around<'_>,
) -> Result<CreateBody> {
    let nothing = LinuxPodSandboxConfig::default();
    let linux = pod.linux.as_ref().unwrap_or(&nothing);
    let no_security = LinuxSandboxSecurityContext::default();
    let security = linux.security_context.as_ref().unwrap_or(&no_security);
    let spaces = namespaces::of_sandbox(security.namespace_options.as_ref(), around.config.plugin)?;

    let mut all_labels = labels::joined(&pod.labels, &pod.annotations);
    all_labels.insert(labels::KIND.into(), labels::SANDBOX.into());
    all_labels.insert(labels::CONTAINER_NAME.into(), names::SANDBOX.into());
    all_labels.insert(labels::HANDLER.into(), handler.to_owned());

    let as_container = of_a_container(security);
    let mut host_config = HostConfig {
        ipc_mode: spaces.ipc,
        network_mode: spaces.network,
        pid_mode: spaces.pid,
        cgroup_parent: cgroup_parent(&linux.cgroup_parent, around.driver),
        resources: Resources {
            cpu_shares: CPU_SHARES,
            ..Resources::default()
        },
        oom_score_adj: limits::oom_score_adj(OOM_SCORE_ADJ, around.oom_floor)?,
        runtime: runtime(handler, around.info)?,
        restart_policy: RestartPolicy { name: "no".into() },
        sysctls: Some(sysctls(linux, around.config, spaces.own_network)),
        ..HostConfig::default()
    };
    let user = security::apply(&as_container, &mut host_config, around.info)?;
    host_config.security_opt.push("no-new-privileges".into());
    // Regardless of the containers' profile, the pause process gets the engine's default seccomp profile. The built-in
    // pause process gets a narrower one.
    if image == pause::BUILT_IN {
        let option = pause_seccomp::option(around.info);
        host_config.security_opt.extend(option);
    }

    let mut config = ContainerConfig {
        hostname: pod.hostname.clone(),
        image: image.to_owned(),
        labels: all_labels,
        user,
        ..ContainerConfig::default()
    };
    if around.config.plugin == NetworkPlugin::Bridge && spaces.own_network {
        let bindings = port_bindings(&pod.port_mappings)?;
        config.exposed_ports = Some(
            bindings
                .keys()
                .map(|port| (port.clone(), serde_json::json!({})))
                .collect(),
        );
        host_config.port_bindings = Some(bindings);
    }
    Ok(CreateBody {
        config,
        host_config,
    })
}

/// Converts a sandbox's security settings to a container's. The pause process never needs privilege, even if the
/// containers have it.
fn of_a_container(sandbox: &LinuxSandboxSecurityContext) -> LinuxContainerSecurityContext {
    LinuxContainerSecurityContext {
        selinux_options: sandbox.selinux_options.clone(),
        run_as_user: sandbox.run_as_user,
        run_as_group: sandbox.run_as_group,
        readonly_rootfs: sandbox.readonly_rootfs,
        supplemental_groups: sandbox.supplemental_groups.clone(),
        supplemental_groups_policy: sandbox.supplemental_groups_policy,
        masked_paths: Vec::new(),
        readonly_paths: Vec::new(),
        ..Default::default()
    }
}

/// Returns the cgroup parent for the driver. The engine's systemd driver wants only the slice, whose name implies its
/// parents.
pub(super) fn cgroup_parent(parent: &str, driver: Driver) -> String {
    match driver {
        Driver::Systemd => {
            let parent = parent.trim_end_matches('/');
            parent.rsplit('/').next().unwrap_or_default().to_owned()
        }
        Driver::Cgroupfs => parent.to_owned(),
    }
}

/// Returns the engine's runtime for a runtime handler.
fn runtime(handler: &str, info: &Info) -> Result<String> {
    match handler {
        "" | "docker" => Ok(String::new()),
        named if info.runtimes.contains_key(named) => Ok(named.to_owned()),
        unknown => {
            let known: Vec<_> = info.runtimes.keys().map(String::as_str).collect();
            let problem = format!(
                "the Docker Engine has no runtime {unknown:?} (it has {}); add the runtime to \
                 `runtimes` in the engine's daemon.json",
                known.join(", ")
            );
            Err(Error::invalid("runtime_handler", problem).into())
        }
    }
}

fn sysctls(
    linux: &LinuxPodSandboxConfig,
    config: &Config,
    own_network: bool,
) -> BTreeMap<String, String> {
    let own = linux
        .sysctls
        .iter()
        .map(|(key, value)| (key.clone(), value.clone()));
    let common = config.containers.sysctls.clone();
    let common = common
        .into_iter()
        .filter(|(key, _)| own_network || !key.starts_with("net."));
    common.chain(own).collect()
}

fn port_bindings(mappings: &[PortMapping]) -> Result<BTreeMap<String, Vec<PortBinding>>> {
    let mut bindings: BTreeMap<String, Vec<PortBinding>> = BTreeMap::new();
    for (index, mapping) in mappings.iter().enumerate() {
        // The kubelet sends every container port; only those with a host port are mapped.
        if mapping.host_port <= 0 {
            continue;
        }
        for port in [mapping.host_port, mapping.container_port] {
            if u16::try_from(port).is_err() || port == 0 {
                let field = format!("config.port_mappings[{index}]");
                let problem = format!("{port} is not a valid port; use 1 to 65535");
                return Err(Error::invalid(field, problem).into());
            }
        }
        let protocol = match mapping.protocol() {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
            Protocol::Sctp => "sctp",
        };
        let key = format!("{}/{protocol}", mapping.container_port);
        bindings.entry(key).or_default().push(PortBinding {
            host_ip: mapping.host_ip.clone(),
            host_port: mapping.host_port.to_string(),
        });
    }
    Ok(bindings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_is_spelt_as_the_driver_wants_it() {
        let slice = "/kubepods.slice/kubepods-pod1.slice";
        assert_eq!(cgroup_parent(slice, Driver::Systemd), "kubepods-pod1.slice");
        assert_eq!(
            cgroup_parent("/kubepods/pod1", Driver::Cgroupfs),
            "/kubepods/pod1"
        );
        assert_eq!(cgroup_parent("/a.slice/", Driver::Systemd), "a.slice");
        assert_eq!(cgroup_parent("", Driver::Systemd), "");
    }

    #[test]
    fn only_mapped_ports_are_bound() {
        let mapping = |container_port, host_port| PortMapping {
            container_port,
            host_port,
            ..Default::default()
        };
        let bindings = port_bindings(&[mapping(80, 8080), mapping(81, 0)]).unwrap();
        assert_eq!(bindings.len(), 1);
        assert_eq!(bindings["80/tcp"][0].host_port, "8080");
        assert!(port_bindings(&[mapping(0, 8080)]).is_err());
        assert!(port_bindings(&[mapping(80, 70000)]).is_err());
    }

    #[test]
    fn handlers_are_the_engines_runtimes() {
        let mut info = Info::default();
        info.runtimes
            .insert("runc".into(), crate::docker::types::RuntimeInfo::default());
        assert_eq!(runtime("", &info).unwrap(), "");
        assert_eq!(runtime("docker", &info).unwrap(), "");
        assert_eq!(runtime("runc", &info).unwrap(), "runc");
        let error = runtime("kata", &info).unwrap_err().to_string();
        assert!(
            error.contains("kata") && error.contains("it has runc"),
            "{error}"
        );
    }
}
