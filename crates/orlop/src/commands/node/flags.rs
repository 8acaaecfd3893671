//! The kubelet's flags, where they mean the same. They beat the configuration file.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, ValueEnum};
use orlop_agent::{AgentOptions, AtEnd, FileRemark, KubeletConfiguration, read_configuration};
use orlop_cli::Span;

use super::logging::LogFlags;
use super::maps::{pairs, thresholds};
use super::tuning::TuningFlags;
use super::{address, name};

/// Flags of the agent.
#[derive(Debug, Args)]
pub(super) struct NodeFlags {
    /// A KubeletConfiguration (kubelet.config.k8s.io/v1beta1); flags beat it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// The runtime's CRI endpoint [default: unix:///run/orlop/orlop.sock]
    #[arg(long, value_name = "ENDPOINT")]
    container_runtime_endpoint: Option<String>,

    /// The endpoint of the image service [default: that of the runtime]
    #[arg(long, value_name = "ENDPOINT")]
    image_service_endpoint: Option<String>,

    /// A directory of manifests, or one file; - is the standard input
    #[arg(long, value_name = "PATH")]
    pod_manifest_path: Option<PathBuf>,

    /// A URL with manifests
    #[arg(long, value_name = "URL")]
    manifest_url: Option<String>,

    /// A header for that URL, as name:value; may be given more than once
    #[arg(long, value_name = "HEADER")]
    manifest_url_header: Vec<String>,

    /// How often manifests are read without a change having been noticed [default: 20s]
    #[arg(long, value_name = "TIME")]
    file_check_frequency: Option<Span>,

    /// How often the URL is asked [default: 20s]
    #[arg(long, value_name = "TIME")]
    http_check_frequency: Option<Span>,

    /// How often a pod is looked at without anything having happened [default: 1m]
    #[arg(long, value_name = "TIME")]
    sync_frequency: Option<Span>,

    /// The node's name [default: the host's]
    #[arg(long, value_name = "NAME")]
    hostname_override: Option<String>,

    /// The node's address [default: that of its default route]
    #[arg(long, value_name = "ADDRESS")]
    node_ip: Option<IpAddr>,

    /// The node's labels, as a=b,c=d
    #[arg(long, value_name = "LABELS")]
    node_labels: Option<String>,

    /// Where the agent keeps what must survive it
    #[arg(long, value_name = "DIR", default_value = "/var/lib/orlop-node")]
    root_dir: PathBuf,

    /// Where its own certificate is [default: ROOT_DIR/pki]
    #[arg(long, value_name = "DIR")]
    cert_dir: Option<PathBuf>,

    /// The socket through which root gives orders
    #[arg(long, value_name = "PATH", default_value = super::socket::DEFAULT)]
    control_socket: PathBuf,

    /// How long the runtime may take [default: 2m]
    #[arg(long, value_name = "TIME")]
    runtime_request_timeout: Option<Span>,

    /// Give a pull up after so long [default: never]
    #[arg(long, value_name = "TIME")]
    image_pull_progress_deadline: Option<Span>,

    /// One pull at a time
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    serialize_image_pulls: Option<bool>,

    /// Pulls per second; 0 for no bound [default: 5]
    #[arg(long, value_name = "N")]
    registry_qps: Option<u32>,

    /// Pulls at once above that [default: 10]
    #[arg(long, value_name = "N")]
    registry_burst: Option<u32>,

    /// Remove images when the disk is fuller than this, in percent [default: 85]
    #[arg(long, value_name = "PERCENT")]
    image_gc_high_threshold: Option<u8>,

    /// Until it is no fuller than this [default: 80]
    #[arg(long, value_name = "PERCENT")]
    image_gc_low_threshold: Option<u8>,

    /// Unused images stay at least so long [default: 2m]
    #[arg(long, value_name = "TIME")]
    minimum_image_ttl_duration: Option<Span>,

    /// A CredentialProviderConfig
    #[arg(
        long,
        value_name = "FILE",
        requires = "image_credential_provider_bin_dir"
    )]
    image_credential_provider_config: Option<PathBuf>,

    /// Where the programs that it names are
    #[arg(
        long,
        value_name = "DIR",
        requires = "image_credential_provider_config"
    )]
    image_credential_provider_bin_dir: Option<PathBuf>,

    /// How many pods there may be [default: 110]
    #[arg(long, value_name = "N")]
    max_pods: Option<u32>,

    /// How many processes a pod may have; -1 for no bound
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pod_max_pids: Option<i64>,

    /// What pods may not use, as cpu=100m,memory=100Mi
    #[arg(long, value_name = "AMOUNTS")]
    system_reserved: Option<String>,

    /// What pods may not use, as cpu=100m,memory=100Mi
    #[arg(long, value_name = "AMOUNTS")]
    kube_reserved: Option<String>,

    /// End pods at once below these, as memory.available<100Mi,nodefs.available<10%; empty for none
    #[arg(long, value_name = "THRESHOLDS")]
    eviction_hard: Option<String>,

    /// End pods below these after a while
    #[arg(long, value_name = "THRESHOLDS")]
    eviction_soft: Option<String>,

    /// How long that while is, as memory.available=30s
    #[arg(long, value_name = "TIMES")]
    eviction_soft_grace_period: Option<String>,

    /// What the pods' cgroups are beneath [default: /]
    #[arg(long, value_name = "CGROUP")]
    cgroup_root: Option<String>,

    /// Who makes cgroups: cgroupfs or systemd [default: cgroupfs]
    #[arg(long, value_name = "NAME")]
    cgroup_driver: Option<String>,

    /// Put pods into cgroups by their class [default: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    cgroups_per_qos: Option<bool>,

    /// Name servers of pods
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    cluster_dns: Vec<IpAddr>,

    /// The domain of services
    #[arg(long, value_name = "DOMAIN")]
    cluster_domain: Option<String>,

    /// The node's name resolution [default: /etc/resolv.conf]
    #[arg(long, value_name = "FILE")]
    resolv_conf: Option<String>,

    /// Where the pods' logs are [default: /var/log/pods]
    #[arg(long, value_name = "DIR")]
    pod_logs_dir: Option<String>,

    /// Where links to containers' logs are; empty for none
    #[arg(long, value_name = "DIR", default_value = "/var/log/containers")]
    container_logs_dir: String,

    /// Above it a log is rotated [default: 10Mi]
    #[arg(long, value_name = "SIZE")]
    container_log_max_size: Option<String>,

    /// How many files a log has [default: 5]
    #[arg(long, value_name = "N")]
    container_log_max_files: Option<u32>,

    /// Give containers without a seccomp profile the runtime's
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    seccomp_default: Option<bool>,

    /// Refuse to start while the node swaps [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    fail_swap_on: Option<bool>,

    /// Where the servers listen [default: 127.0.0.1]
    #[arg(long, value_name = "ADDRESS")]
    address: Option<IpAddr>,

    /// Serve HTTPS at all [default: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    enable_server: Option<bool>,

    /// The port of HTTPS [default: 10250]
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,

    /// The port that asks for no credentials and only reads; 0 for none [default: 0]
    #[arg(long, value_name = "PORT")]
    read_only_port: Option<u16>,

    /// The port of /healthz; 0 for none [default: 10248]
    #[arg(long, value_name = "PORT")]
    healthz_port: Option<u16>,

    /// Where that one listens [default: 127.0.0.1]
    #[arg(long, value_name = "ADDRESS")]
    healthz_bind_address: Option<IpAddr>,

    /// The certificate for HTTPS [default: one that the agent makes]
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    tls_cert_file: Option<String>,

    /// Its key
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_private_key_file: Option<String>,

    /// Let clients in that have a certificate of this authority
    #[arg(long, value_name = "FILE")]
    client_ca_file: Option<String>,

    /// Let clients in that have a token of this file, with lines token,user,uid
    #[arg(long, value_name = "FILE")]
    token_auth_file: Option<PathBuf>,

    /// Let everyone in [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    anonymous_auth: Option<bool>,

    /// What clients may do: AlwaysAllow
    #[arg(long, value_name = "MODE")]
    authorization_mode: Option<String>,

    #[command(flatten)]
    tuning: TuningFlags,

    /// What becomes of the pods when the agent is told to end
    #[arg(long, value_name = "WORD", default_value = "leave")]
    at_end: End,

    #[command(flatten)]
    pub(super) logging: LogFlags,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum End {
    /// They run on, and the next agent takes them over
    Leave,
    /// They are stopped within their grace periods
    Stop,
}

/// Where manifests come from when the standard input is meant.
const STDIN: &str = "-";

impl NodeFlags {
    /// The options that flags and configuration amount to, and the fields of the configuration
    /// that have no effect.
    pub(super) fn read(self) -> anyhow::Result<(AgentOptions, Vec<FileRemark>)> {
        let (mut configuration, idle) = configuration(self.config.as_deref())?;
        let stdin = self.pod_manifest_path.as_deref() == Some(Path::new(STDIN));
        self.over(&mut configuration)?;
        let node_name = match &self.hostname_override {
            Some(name) => name.trim().to_lowercase(),
            None => name(),
        };
        let mut options = AgentOptions::new(&node_name, &self.root_dir);
        options.node_ip = self.node_ip.or_else(address);
        if let Some(labels) = &self.node_labels {
            options.labels = pairs("node-labels", labels)?;
        }
        if let Some(directory) = self.cert_dir {
            options.cert_dir = directory;
        }
        options.control_socket = Some(self.control_socket);
        options.token_file = self.token_auth_file;
        options.stdin = stdin;
        options.pull_deadline = self
            .image_pull_progress_deadline
            .map(|span| span.0)
            .filter(|deadline| !deadline.is_zero());
        options.credential_providers = self
            .image_credential_provider_config
            .zip(self.image_credential_provider_bin_dir);
        options.container_logs_dir =
            (!self.container_logs_dir.is_empty()).then(|| self.container_logs_dir.into());
        options.at_end = match self.at_end {
            End::Leave => AtEnd::Leave,
            End::Stop => AtEnd::Stop,
        };
        self.tuning.beside(&mut options);
        options.configuration = configuration;
        Ok((options, idle))
    }

    /// Lets flags beat the file.
    fn over(&self, to: &mut KubeletConfiguration) -> anyhow::Result<()> {
        fn set<T: Clone>(field: &mut T, flag: Option<&T>) {
            if let Some(value) = flag {
                field.clone_from(value);
            }
        }
        fn span(field: &mut std::time::Duration, flag: Option<Span>) {
            if let Some(value) = flag {
                *field = value.0;
            }
        }
        set(
            &mut to.container_runtime_endpoint,
            self.container_runtime_endpoint.as_ref(),
        );
        if to.container_runtime_endpoint.is_empty() {
            "unix:///run/orlop/orlop.sock".clone_into(&mut to.container_runtime_endpoint);
        }
        set(
            &mut to.image_service_endpoint,
            self.image_service_endpoint.as_ref(),
        );
        match self.pod_manifest_path.as_deref() {
            Some(path) if path == Path::new(STDIN) => to.static_pod_path.clear(),
            Some(path) => {
                let path = std::path::absolute(path)
                    .with_context(|| format!("cannot use {}", path.display()))?;
                path.to_str()
                    .context("the path of the manifests is no UTF-8")?
                    .clone_into(&mut to.static_pod_path);
            }
            None => {}
        }
        set(&mut to.static_pod_url, self.manifest_url.as_ref());
        if !self.manifest_url_header.is_empty() {
            to.static_pod_url_header.clear();
        }
        for header in &self.manifest_url_header {
            let (name, value) = header
                .split_once(':')
                .with_context(|| format!("--manifest-url-header: `{header}` is not name:value"))?;
            let values = to
                .static_pod_url_header
                .entry(name.trim().to_owned())
                .or_default();
            values.push(value.trim().to_owned());
        }
        span(&mut to.file_check_frequency, self.file_check_frequency);
        span(&mut to.http_check_frequency, self.http_check_frequency);
        span(&mut to.sync_frequency, self.sync_frequency);
        span(
            &mut to.runtime_request_timeout,
            self.runtime_request_timeout,
        );
        span(
            &mut to.image_minimum_gc_age,
            self.minimum_image_ttl_duration,
        );
        if self.serialize_image_pulls.is_some() {
            to.serialize_image_pulls = self.serialize_image_pulls;
        }
        set(&mut to.registry_pull_qps, self.registry_qps.as_ref());
        set(&mut to.registry_burst, self.registry_burst.as_ref());
        set(
            &mut to.image_gc_high_threshold_percent,
            self.image_gc_high_threshold.as_ref(),
        );
        set(
            &mut to.image_gc_low_threshold_percent,
            self.image_gc_low_threshold.as_ref(),
        );
        set(&mut to.max_pods, self.max_pods.as_ref());
        set(&mut to.pod_pids_limit, self.pod_max_pids.as_ref());
        if let Some(text) = &self.system_reserved {
            to.system_reserved = pairs("system-reserved", text)?;
        }
        if let Some(text) = &self.kube_reserved {
            to.kube_reserved = pairs("kube-reserved", text)?;
        }
        if let Some(text) = &self.eviction_hard {
            to.eviction_hard = Some(thresholds("eviction-hard", text)?);
        }
        if let Some(text) = &self.eviction_soft {
            to.eviction_soft = thresholds("eviction-soft", text)?;
        }
        if let Some(text) = &self.eviction_soft_grace_period {
            to.eviction_soft_grace_period = pairs("eviction-soft-grace-period", text)?;
        }
        set(&mut to.cgroup_root, self.cgroup_root.as_ref());
        set(&mut to.cgroup_driver, self.cgroup_driver.as_ref());
        set(&mut to.cgroups_per_qos, self.cgroups_per_qos.as_ref());
        if !self.cluster_dns.is_empty() {
            to.cluster_dns.clone_from(&self.cluster_dns);
        }
        set(&mut to.cluster_domain, self.cluster_domain.as_ref());
        set(&mut to.resolv_conf, self.resolv_conf.as_ref());
        set(&mut to.pod_logs_dir, self.pod_logs_dir.as_ref());
        if let Some(size) = &self.container_log_max_size {
            to.container_log_max_size = size.parse().context("--container-log-max-size")?;
        }
        set(
            &mut to.container_log_max_files,
            self.container_log_max_files.as_ref(),
        );
        set(&mut to.seccomp_default, self.seccomp_default.as_ref());
        set(&mut to.fail_swap_on, self.fail_swap_on.as_ref());
        set(&mut to.address, self.address.as_ref());
        set(&mut to.enable_server, self.enable_server.as_ref());
        set(&mut to.port, self.port.as_ref());
        set(&mut to.read_only_port, self.read_only_port.as_ref());
        set(&mut to.healthz_port, self.healthz_port.as_ref());
        set(
            &mut to.healthz_bind_address,
            self.healthz_bind_address.as_ref(),
        );
        set(&mut to.tls_cert_file, self.tls_cert_file.as_ref());
        set(
            &mut to.tls_private_key_file,
            self.tls_private_key_file.as_ref(),
        );
        set(
            &mut to.authentication.x509.client_ca_file,
            self.client_ca_file.as_ref(),
        );
        set(
            &mut to.authentication.anonymous.enabled,
            self.anonymous_auth.as_ref(),
        );
        set(&mut to.authorization.mode, self.authorization_mode.as_ref());
        self.tuning.over(to)
    }
}

/// What the file says, or the defaults.
fn configuration(path: Option<&Path>) -> anyhow::Result<(KubeletConfiguration, Vec<FileRemark>)> {
    match path {
        None => Ok((KubeletConfiguration::default(), Vec::new())),
        Some(path) => Ok(read_configuration(path)?),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Alone {
        #[command(flatten)]
        flags: NodeFlags,
    }

    fn read(args: &[&str]) -> AgentOptions {
        let args = [&["node"], args].concat();
        Alone::parse_from(args).flags.read().unwrap().0
    }

    #[test]
    fn flags_beat_the_file_and_the_file_beats_defaults() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("k.yaml");
        std::fs::write(
            &path,
            "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nport: 1\n\
             readOnlyPort: 2\nevictionHard: {memory.available: 1Gi}\nstaticPodPath: /m\n",
        )
        .unwrap();
        let config = path.to_str().unwrap();
        let options = read(&[
            "--config",
            config,
            "--read-only-port=5",
            "--hostname-override=N1",
        ]);
        let written = &options.configuration;
        assert_eq!(
            (written.port, written.read_only_port, written.healthz_port),
            (1, 5, 10248)
        );
        assert_eq!(written.static_pod_path, "/m");
        assert_eq!(options.node_name, "n1");
        let options = read(&[
            "--config",
            config,
            "--eviction-hard",
            "",
            "--pod-manifest-path=-",
            "--serialize-image-pulls",
            "--node-labels=a=b",
            "--manifest-url-header=X: y",
        ]);
        let written = &options.configuration;
        assert_eq!(
            written
                .eviction_hard
                .as_ref()
                .map(std::collections::BTreeMap::len),
            Some(0)
        );
        assert!(options.stdin && written.static_pod_path.is_empty());
        assert_eq!(written.serialize_image_pulls, Some(true));
        assert_eq!(options.labels["a"], "b");
        assert_eq!(written.static_pod_url_header["X"], ["y"]);
    }

    #[test]
    fn mistakes_in_flags_are_told() {
        for args in [
            &["--max-pods=many"][..],
            &["--tls-cert-file=x"],
            &["--at-end=later"],
        ] {
            let args = [&["node"], args].concat();
            assert!(Alone::try_parse_from(args).is_err());
        }
        let args = ["node", "--eviction-hard", "memory.available=5"];
        assert!(Alone::parse_from(args).flags.read().is_err());
    }
}
