//! From the configuration file to what the docker backend must be told.

use orlop_dockershim::config as docker;

use super::{common, native};
use crate::config::Config;
use crate::config::values::{Limit, resource};

/// Where cri-dockerd keeps the results of CNI plugins, which a node that moves from it needs.
const CRI_DOCKERD_CACHE: &str = "/var/lib/cni/cache";
/// Where the engine has the certificates of registries.
const ENGINE_CERTIFICATES: &str = "/etc/docker/certs.d";

/// The default of everybody else.
const DEFAULT_CACHE: &str = "/var/lib/cni";

/// Translates the configuration.
pub(super) fn docker_config(config: &Config) -> docker::Config {
    let section = &config.docker;
    // Records of its own: a pod of one backend is none of the other's.
    let mut network = native::network(config, &config.daemon.root.join("docker"));
    if network.cache_dir.as_os_str() == DEFAULT_CACHE {
        network.cache_dir = CRI_DOCKERD_CACHE.into();
    }
    docker::Config {
        endpoint: section.endpoint.to_path_buf(),
        root: section.root.to_path_buf(),
        pause_image: section.pause_image.clone(),
        policies: policies(config),
        credential_files: common::credential_files(&config.images.credentials),
        pull_progress_deadline: config.images.progress_timeout.get(),
        request_timeout: section.request_timeout.get(),
        runtime_cgroup: section.runtime_cgroups.clone(),
        cgroup_driver: config.daemon.cgroup_driver,
        plugin: section.network_plugin,
        hairpin: section.hairpin_mode,
        dual_stack: section.ipv6_dual_stack,
        network,
        streaming: common::streaming(config),
        containers: containers(config),
        event_backlog: config.grpc.event_backlog.get(),
        listeners: config.daemon.state.join("listeners"),
    }
}

/// Which images may be used, where a policy says so, and how registries are asked about that.
pub(crate) fn policies(config: &Config) -> Option<docker::Images> {
    let section = &config.images;
    let mut images = docker::Images::new(config.daemon.root.join("docker/signatures"));
    images.policies = common::policy_files(section);
    if images.policies.is_empty() {
        return None;
    }
    common::reach_registries(&mut images, section);
    // What makes the engine trust a registry makes us trust it, too.
    images.registry_dirs.push(ENGINE_CERTIFICATES.into());
    Some(images)
}

fn containers(config: &Config) -> docker::Containers {
    let section = &config.containers;
    let number = |limit: u64| i64::try_from(limit).unwrap_or(-1);
    docker::Containers {
        max_log_line: section.max_log_line.get() as usize,
        exec_output_limit: section.exec_output_limit.get() as usize,
        exec_output_memory: section.exec_output_memory.get() as usize,
        message_limit: config.grpc.max_message_size.get() as usize,
        pids_limit: match section.pids_limit {
            Limit::Unlimited => None,
            Limit::At(bound) => Some(bound.get().into()),
        },
        ulimits: section
            .ulimits
            .iter()
            .map(|limit| (resource(limit), number(limit.soft), number(limit.hard)))
            .collect(),
        sysctls: section.sysctls.clone(),
        seccomp_when_unset: section.seccomp_when_unset,
    }
}
