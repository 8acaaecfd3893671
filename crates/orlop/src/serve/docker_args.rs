//! The flags that people know from cri-dockerd and the kubelet's dockershim. Each is a key of the
//! configuration, too.

use std::net::SocketAddr;

use clap::Args;

use crate::config::Config;
use crate::config::values::{
    AbsolutePath, CgroupDriver, HairpinMode, Interval, NetworkPlugin, SocketPath,
};

/// Flags of the docker backend.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct DockerArgs {
    /// The engine's unix socket [default: unix:///run/docker.sock]
    #[arg(long, value_name = "SOCKET")]
    docker_endpoint: Option<SocketPath>,

    /// Where sandbox checkpoints are kept [default: /var/lib/cri-dockerd]
    #[arg(
        long,
        value_name = "DIR",
        alias = "experimental-dockershim-root-directory"
    )]
    cri_dockerd_root_directory: Option<AbsolutePath>,

    /// The image of the sandboxes' process [default: a built-in one]
    #[arg(long, value_name = "IMAGE")]
    pod_infra_container_image: Option<String>,

    /// A pull that brings nothing for so long is ended [default: 60s]
    #[arg(long, value_name = "DURATION")]
    image_pull_progress_deadline: Option<Interval>,

    /// How long a call of the engine may take [default: 120s]
    #[arg(long, value_name = "DURATION")]
    runtime_request_timeout: Option<Interval>,

    /// The control group that the engine and this daemon are put into
    #[arg(long, value_name = "CGROUP")]
    runtime_cgroups: Option<String>,

    /// What the engine's cgroup driver must be: systemd or cgroupfs [default: what it is]
    #[arg(long, value_name = "DRIVER")]
    cgroup_driver: Option<CgroupDriver>,

    /// Who makes the pods' networks: cni, bridge or none [default: cni]
    #[arg(long, value_name = "NAME")]
    network_plugin: Option<NetworkPlugin>,

    /// Where CNI plugins are, separated by commas [default: /opt/cni/bin,/usr/lib/cni]
    #[arg(long, value_name = "DIRS", value_delimiter = ',')]
    cni_bin_dir: Vec<AbsolutePath>,

    /// Where the CNI configuration is [default: /etc/cni/net.d]
    #[arg(long, value_name = "DIR")]
    cni_conf_dir: Option<AbsolutePath>,

    /// Where the results of CNI plugins are kept [default: /var/lib/cni/cache]
    #[arg(long, value_name = "DIR")]
    cni_cache_dir: Option<AbsolutePath>,

    /// promiscuous-bridge, hairpin-veth or none [default: hairpin-veth]
    #[arg(long, value_name = "MODE")]
    hairpin_mode: Option<HairpinMode>,

    /// Where exec, attach and port-forward sessions are served [default: 127.0.0.1:0]
    #[arg(long, value_name = "ADDRESS:PORT")]
    streaming_bind_addr: Option<SocketAddr>,

    /// Whether pods have addresses of both families [default: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    ipv6_dual_stack: Option<bool>,
}

impl DockerArgs {
    /// Puts them into the configuration; answers the keys, with the flags that set them.
    pub(crate) fn apply(&self, config: &mut Config) -> Vec<(&'static str, &'static str)> {
        let mut set = Vec::new();
        let Config {
            daemon,
            images,
            network,
            streaming,
            docker,
            ..
        } = config;
        let mut note = |key, flag| set.push((key, flag));
        if let Some(endpoint) = &self.docker_endpoint {
            docker.endpoint.clone_from(endpoint);
            note("docker.endpoint", "--docker-endpoint");
        }
        if let Some(root) = &self.cri_dockerd_root_directory {
            docker.root.clone_from(root);
            note("docker.root", "--cri-dockerd-root-directory");
        }
        if let Some(image) = &self.pod_infra_container_image {
            docker.pause_image = Some(image.clone()).filter(|image| !image.is_empty());
            note("docker.pause_image", "--pod-infra-container-image");
        }
        if let Some(deadline) = self.image_pull_progress_deadline {
            images.progress_timeout = deadline;
            note("images.progress_timeout", "--image-pull-progress-deadline");
        }
        if let Some(timeout) = self.runtime_request_timeout {
            docker.request_timeout = timeout;
            note("docker.request_timeout", "--runtime-request-timeout");
        }
        if let Some(cgroup) = &self.runtime_cgroups {
            docker.runtime_cgroups = Some(cgroup.clone()).filter(|cgroup| !cgroup.is_empty());
            note("docker.runtime_cgroups", "--runtime-cgroups");
        }
        if let Some(driver) = self.cgroup_driver {
            daemon.cgroup_driver = driver;
            note("cgroup_driver", "--cgroup-driver");
        }
        if let Some(plugin) = self.network_plugin {
            docker.network_plugin = plugin;
            note("docker.network_plugin", "--network-plugin");
        }
        if !self.cni_bin_dir.is_empty() {
            network.bin_dirs.clone_from(&self.cni_bin_dir);
            note("network.bin_dirs", "--cni-bin-dir");
        }
        if let Some(dir) = &self.cni_conf_dir {
            network.conf_dir.clone_from(dir);
            note("network.conf_dir", "--cni-conf-dir");
        }
        if let Some(dir) = &self.cni_cache_dir {
            network.cache_dir.clone_from(dir);
            note("network.cache_dir", "--cni-cache-dir");
        }
        if let Some(mode) = self.hairpin_mode {
            docker.hairpin_mode = mode;
            note("docker.hairpin_mode", "--hairpin-mode");
        }
        if let Some(bind) = self.streaming_bind_addr {
            (streaming.address, streaming.port) = (bind.ip(), bind.port());
            note("streaming.address", "--streaming-bind-addr");
            note("streaming.port", "--streaming-bind-addr");
        }
        if let Some(dual_stack) = self.ipv6_dual_stack {
            docker.ipv6_dual_stack = dual_stack;
            note("docker.ipv6_dual_stack", "--ipv6-dual-stack");
        }
        set
    }
}
