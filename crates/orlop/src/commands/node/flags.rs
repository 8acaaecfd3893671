//! The kubelet's flags with the same meaning. They override the configuration file.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::{Args, ValueEnum};
use orlop_agent::{
    AgentOptions, AtEnd, FileRemark, KubeletConfiguration, read_configuration, read_pairs,
};
use orlop_cli::Span;

use super::super::page::PageFlags;
use super::fields::FieldFlags;
use super::logging::LogFlags;
use super::{address, name};

/// Flags of the agent.
#[derive(Debug, Args)]
pub(super) struct NodeFlags {
    /// KubeletConfiguration file (kubelet.config.k8s.io/v1beta1); flags take precedence
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    #[command(flatten)]
    fields: FieldFlags,

    /// Name of the node [default: the host name]
    #[arg(long, value_name = "NAME")]
    hostname_override: Option<String>,

    /// IP address of the node [default: the address of the default route]
    #[arg(long, value_name = "ADDRESS")]
    node_ip: Option<IpAddr>,

    /// Labels of the node, as a=b,c=d
    #[arg(long, value_name = "LABELS")]
    node_labels: Option<String>,

    /// Directory for persistent data of the agent
    #[arg(long, value_name = "DIR", default_value = "/var/lib/orlop-node")]
    root_dir: PathBuf,

    /// Directory with the certificate of the agent [default: ROOT_DIR/pki]
    #[arg(long, value_name = "DIR")]
    cert_dir: Option<PathBuf>,

    /// Control socket of the agent, for root only
    #[arg(long, value_name = "PATH", default_value = super::socket::DEFAULT)]
    control_socket: PathBuf,

    /// Maximum time for an image pull [default: no limit]
    #[arg(long, value_name = "TIME")]
    image_pull_progress_deadline: Option<Span>,

    /// CredentialProviderConfig file
    #[arg(
        long,
        value_name = "FILE",
        requires = "image_credential_provider_bin_dir"
    )]
    image_credential_provider_config: Option<PathBuf>,

    /// Directory with the credential provider plugins
    #[arg(
        long,
        value_name = "DIR",
        requires = "image_credential_provider_config"
    )]
    image_credential_provider_bin_dir: Option<PathBuf>,

    /// Directory for symbolic links to container logs; empty for no links
    #[arg(long, value_name = "DIR", default_value = "/var/log/containers")]
    container_logs_dir: String,

    /// Static token file for client authentication, with lines token,user,uid
    #[arg(long, value_name = "FILE")]
    token_auth_file: Option<PathBuf>,

    /// Minimum age of a dead container before it is removed [default: 0s]
    #[arg(long, value_name = "TIME")]
    minimum_container_ttl_duration: Option<Span>,

    /// Maximum number of dead instances to keep per container; negative for no limit [default: 1]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    maximum_dead_containers_per_container: Option<i64>,

    /// Maximum number of dead containers to keep on the node; negative for no limit [default: -1]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    maximum_dead_containers: Option<i64>,

    /// Action for the pods when the agent stops
    #[arg(long, value_name = "WORD", default_value = "leave")]
    at_end: End,

    #[command(flatten)]
    pub(super) logging: LogFlags,

    #[command(flatten)]
    pub(super) page: PageFlags,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum End {
    /// Keep the pods running; the next agent adopts them
    Leave,
    /// Stop the pods within their grace periods
    Stop,
}

/// Flag with the location of static pod manifests.
const MANIFESTS: &str = "pod-manifest-path";

/// Manifest location that means standard input.
const STDIN: &str = "-";

/// Default CRI endpoint.
const RUNTIME: &str = "unix:///run/orlop/orlop.sock";

impl NodeFlags {
    /// Returns the agent's options from flags and configuration, and the configuration fields without effect.
    pub(super) fn read(self) -> anyhow::Result<(AgentOptions, Vec<FileRemark>)> {
        let (mut configuration, idle) = configuration(self.config.as_deref())?;
        self.fields.beat(&mut configuration)?;
        let stdin = self.fields.value(MANIFESTS) == Some(STDIN);
        if stdin {
            configuration.static_pod_path.clear();
        } else if let Some(path) = self.fields.value(MANIFESTS) {
            let path = std::path::absolute(path).with_context(|| format!("cannot use {path}"))?;
            configuration.static_pod_path = path.to_string_lossy().into_owned();
        }
        if configuration.container_runtime_endpoint.is_empty() {
            RUNTIME.clone_into(&mut configuration.container_runtime_endpoint);
        }
        let node_name = match &self.hostname_override {
            Some(name) => name.trim().to_lowercase(),
            None => name(),
        };
        let mut options = AgentOptions::new(&node_name, &self.root_dir);
        options.node_ip = self.node_ip.or_else(address);
        if let Some(labels) = &self.node_labels {
            let read = read_pairs(labels).map_err(|why| anyhow!("--node-labels: {why}"));
            options.labels = read?;
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
        let policy = &mut options.container_gc;
        if let Some(age) = self.minimum_container_ttl_duration {
            policy.min_age = age.0;
        }
        if let Some(most) = self.maximum_dead_containers_per_container {
            policy.max_per_container = usize::try_from(most).ok();
        }
        if let Some(most) = self.maximum_dead_containers {
            policy.max_total = usize::try_from(most).ok();
        }
        options.configuration = configuration;
        Ok((options, idle))
    }
}

/// Reads the configuration file, or returns the defaults.
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
        let wrong = Alone::parse_from(args).flags.read().unwrap_err();
        let words = "--eviction-hard: `memory.available=5` is not of the form key<value";
        assert_eq!(wrong.to_string(), words);
        let labels = Alone::parse_from(["node", "--node-labels=a"]).flags.read();
        assert!(
            labels
                .unwrap_err()
                .to_string()
                .starts_with("--node-labels: `a`")
        );
    }

    #[test]
    fn dead_containers_stay_as_flags_say() {
        let policy = read(&[
            "--minimum-container-ttl-duration=1m",
            "--maximum-dead-containers-per-container=-1",
            "--maximum-dead-containers=7",
        ])
        .container_gc;
        assert_eq!(policy.min_age.as_secs(), 60);
        assert_eq!(
            (policy.max_per_container, policy.max_total),
            (None, Some(7))
        );
    }
}
