//! The Docker backend: its start, and its configuration from the configuration of the daemon.

use anyhow::Context as _;
use orlop_cri_api::server::MessageLimits;
use orlop_cri_server::timeline;
use orlop_dockershim::config as docker;
use tonic::service::Routes;

use super::services::routes;
use super::{native, settings};
use crate::config::Config;
use crate::config::values::{Hairpin, Limit, NetworkPlugin, resource};
use crate::docker_shim::Shim;

/// cri-dockerd's cache of CNI results, which a node needs that moves from cri-dockerd.
const CRI_DOCKERD_CACHE: &str = "/var/lib/cni/cache";
/// Directory of registry certificates of the Docker Engine.
const ENGINE_CERTIFICATES: &str = "/etc/docker/certs.d";

/// CNI cache directory that other runtimes use by default.
const DEFAULT_CACHE: &str = "/var/lib/cni";

/// Starts the backend.
pub(super) async fn start(
    config: &Config,
    metrics: timeline::Metrics,
    limits: MessageLimits,
) -> anyhow::Result<(Shim, Routes)> {
    let shim = Shim::start(docker_config(config), metrics)
        .await
        .map_err(|error| anyhow::anyhow!(orlop_dockershim::chain(&*error)))
        .context("cannot start the docker backend")?;
    let services = routes(shim.clone(), limits)
        .add_service(limits.images(shim.clone()))
        .add_service(limits.inspection(shim.clone()));
    Ok((shim, services))
}

/// Converts the configuration.
fn docker_config(config: &Config) -> docker::Config {
    let section = &config.docker;
    // The records are separate from those of the native backend: neither backend knows the other's pods.
    let mut network = native::network(config, &config.daemon.root.join("docker"));
    if network.cache_dir.as_os_str() == DEFAULT_CACHE {
        network.cache_dir = CRI_DOCKERD_CACHE.into();
    }
    docker::Config {
        endpoint: section.endpoint.to_path_buf(),
        root: section.root.to_path_buf(),
        pause_image: section.pause_image.clone(),
        policies: policies(config),
        credential_files: settings::credential_files(&config.images.credentials),
        pull_progress_deadline: config.images.progress_timeout.get(),
        request_timeout: section.request_timeout.get(),
        runtime_cgroup: section.runtime_cgroups.clone(),
        cgroup_driver: config.daemon.cgroup_driver,
        plugin: match section.network_plugin {
            NetworkPlugin::Cni => docker::NetworkPlugin::Cni,
            NetworkPlugin::Bridge => docker::NetworkPlugin::Bridge,
            NetworkPlugin::None => docker::NetworkPlugin::None,
        },
        hairpin: match section.hairpin_mode {
            Hairpin::Promiscuous => docker::Hairpin::PromiscuousBridge,
            Hairpin::Veth => docker::Hairpin::HairpinVeth,
            Hairpin::None => docker::Hairpin::None,
        },
        dual_stack: section.ipv6_dual_stack,
        network,
        streaming: settings::streaming(config),
        containers: containers(config),
        event_backlog: config.grpc.event_backlog.get(),
        listeners: config.daemon.state.join("listeners"),
    }
}

/// Returns the image policies and registry settings, if a signature policy is configured.
pub(crate) fn policies(config: &Config) -> Option<docker::Images> {
    let section = &config.images;
    let mut images = docker::Images::new(config.daemon.root.join("docker/signatures"));
    images.policies = settings::policy_files(section);
    if images.policies.is_empty() {
        return None;
    }
    settings::reach_registries(&mut images, section);
    // A registry that the engine trusts is trusted here as well.
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
