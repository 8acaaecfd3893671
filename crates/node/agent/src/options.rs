//! Options of an agent.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use orlop_cri_api::Endpoint;
use orlop_kubelet_rules::cri_config::{MemoryQos, SwapBehavior};
use orlop_kubelet_rules::gc::ContainerPolicy;
use orlop_kubelet_rules::image::{Allowlist, CredentialPolicy};
use orlop_kuberuntime::manager::{CgroupDriver, Options, StartError};
use thiserror::Error;

use super::KubeletConfiguration;
use super::configuration::gates::{self, is_open};

/// Options of an agent.
#[derive(Debug, Clone)]
pub struct AgentOptions {
    /// The kubelet configuration, with flags already applied.
    pub configuration: KubeletConfiguration,
    /// The node's name.
    pub node_name: String,
    /// The node's address for host network pods; detected if `None`.
    pub node_ip: Option<IpAddr>,
    /// Labels of the node, in addition to the default ones.
    pub labels: BTreeMap<String, String>,
    /// Directory of the agent's persistent state.
    pub root_dir: PathBuf,
    /// Directory of its self-signed certificate.
    pub cert_dir: PathBuf,
    /// Control socket of root, for `orlop apply`, `orlop delete` and `orlop node status`.
    pub control_socket: Option<PathBuf>,
    /// File with the tokens of clients, in the format of an API server's `--token-auth-file`.
    pub token_file: Option<PathBuf>,
    /// Also read manifests from the standard input.
    pub stdin: bool,
    /// Timeout of an image pull.
    pub pull_deadline: Option<Duration>,
    /// A `CredentialProviderConfig`, and the directory of its plugins.
    pub credential_providers: Option<(PathBuf, PathBuf)>,
    /// Directory with links to container logs for log collectors.
    pub container_logs_dir: Option<PathBuf>,
    /// How many dead containers are kept.
    pub container_gc: ContainerPolicy,
    /// Use the runtime's container events instead of listing every second.
    pub events: bool,
    /// What happens to pods when the agent shuts down.
    pub at_end: AtEnd,
}

/// What happens to pods when their agent shuts down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtEnd {
    /// Pods keep running, and the next agent adopts them.
    Leave,
    /// Pods are stopped, within the configured shutdown grace periods.
    Stop,
}

impl AgentOptions {
    /// Creates default options for a node.
    pub fn new(node_name: &str, root_dir: impl Into<PathBuf>) -> Self {
        let root_dir = root_dir.into();
        Self {
            configuration: KubeletConfiguration::default(),
            node_name: node_name.to_owned(),
            node_ip: None,
            labels: BTreeMap::new(),
            cert_dir: root_dir.join("pki"),
            root_dir,
            control_socket: None,
            token_file: None,
            stdin: false,
            pull_deadline: None,
            credential_providers: None,
            container_logs_dir: Some("/var/log/containers".into()),
            container_gc: ContainerPolicy::default(),
            events: true,
            at_end: AtEnd::Leave,
        }
    }

    /// Builds the options of the manager.
    pub(super) fn manager(&self) -> Result<Options, AgentError> {
        let written = &self.configuration;
        let endpoint = |field: &str, text: &str| {
            text.parse::<Endpoint>()
                .map_err(|error| AgentError::Setting(format!("{field}: {error}")))
        };
        let runtime = endpoint(
            "containerRuntimeEndpoint",
            &written.container_runtime_endpoint,
        )?;
        let mut options = Options::new(runtime, &self.root_dir);
        if !written.image_service_endpoint.is_empty() {
            let text = &written.image_service_endpoint;
            options.image_endpoint = Some(endpoint("imageServiceEndpoint", text)?);
        }
        options.request_timeout = written.runtime_request_timeout;
        options.node.name.clone_from(&self.node_name);
        options.node.addresses = self.node_ip.into_iter().collect();
        options.pod_logs_dir = (&written.pod_logs_dir).into();
        options
            .container_logs_dir
            .clone_from(&self.container_logs_dir);
        options.seccomp_default = written.seccomp_default;
        options.cgroups.per_qos = written.cgroups_per_qos;
        if !written.cgroup_root.is_empty() {
            options.cgroups.root.clone_from(&written.cgroup_root);
        }
        options.cgroups.driver = match written.cgroup_driver.as_str() {
            "cgroupfs" => CgroupDriver::Cgroupfs,
            "systemd" => CgroupDriver::Systemd,
            other => {
                let text = format!("cgroupDriver must be cgroupfs or systemd, not {other:?}");
                return Err(AgentError::Setting(text));
            }
        };
        options.cgroups.pids_limit = u64::try_from(written.pod_pids_limit)
            .ok()
            .filter(|it| *it > 0);
        options.cgroups.cpu_quota = written.cpu_cfs_quota;
        options.swap = match written.memory_swap.swap_behavior.as_str() {
            "" | "NoSwap" => SwapBehavior::NoSwap,
            "LimitedSwap" => SwapBehavior::LimitedSwap,
            other => {
                let text =
                    format!("memorySwap.swapBehavior must be NoSwap or LimitedSwap, not {other:?}");
                return Err(AgentError::Setting(text));
            }
        };
        options.single_process_oom_kill = written.single_process_oom_kill;
        options.user_namespaces.ids_per_pod = written.user_namespaces.ids_per_pod;
        options.user_namespaces.max_pods = written.max_pods;
        options.dns.servers.clone_from(&written.cluster_dns);
        options.dns.domain.clone_from(&written.cluster_domain);
        options.dns.resolv_conf = (&written.resolv_conf).into();
        let parallel = written.max_parallel_image_pulls;
        let serialize = written.serialize_image_pulls;
        options.images.serialize_pulls = serialize.unwrap_or(parallel.is_none_or(|it| it < 2));
        if serialize == Some(true) && parallel.is_some_and(|it| it > 1) {
            let text = "maxParallelImagePulls must not be above 1 when serializeImagePulls is true";
            return Err(AgentError::Setting(text.to_owned()));
        }
        options.images.max_parallel_pulls = parallel;
        options.images.pull_qps = written.registry_pull_qps;
        options.images.pull_burst = written.registry_burst;
        options.images.pull_deadline = self.pull_deadline;
        if let Some((config, directory)) = &self.credential_providers {
            options.images.credential_provider_config = Some(config.clone());
            options.images.credential_provider_bin_dir = Some(directory.clone());
        }
        let (high, low) = (
            written.image_gc_high_threshold_percent,
            written.image_gc_low_threshold_percent,
        );
        if high > 100 || low > 100 || low >= high {
            return Err(AgentError::Setting(format!(
                "imageGCLowThresholdPercent ({low}) must be below imageGCHighThresholdPercent \
                 ({high}), and both must be between 0 and 100"
            )));
        }
        options.images.gc.high_percent = high;
        options.images.gc.low_percent = low;
        options.images.gc.min_age = written.image_minimum_gc_age;
        let oldest = written.image_maximum_gc_age;
        options.images.gc.max_age = (!oldest.is_zero()).then_some(oldest);
        options.logs.max_size = u64::try_from(written.container_log_max_size.units()).unwrap_or(0);
        options.logs.max_files = written.container_log_max_files as usize;
        if options.logs.max_files < 2 {
            let text = "containerLogMaxFiles must be at least 2";
            return Err(AgentError::Setting(text.to_owned()));
        }
        options.logs.period = written.container_log_monitor_interval;
        options.images.credential_policy = credential_policy(written)?;
        options.cgroups.memory_qos = memory_qos(written)?;
        if is_open(&written.feature_gates, gates::REDUCED_BACK_OFF) {
            options.first_restart_backoff = Duration::from_secs(1);
            options.max_restart_backoff = Duration::from_mins(1);
        }
        if let Some(longest) = written.crash_loop_back_off.max_container_restart_period {
            let may = Duration::from_secs(1)..=orlop_kubelet_rules::backoff::MAXIMUM;
            if !may.contains(&longest) {
                return Err(AgentError::Setting(format!(
                    "crashLoopBackOff.maxContainerRestartPeriod must be between 1s and 300s, not \
                     {longest:?}"
                )));
            }
            options.max_restart_backoff = longest;
        }
        options.resync = written.sync_frequency;
        options.container_gc = self.container_gc;
        options.events = self.events && is_open(&written.feature_gates, gates::EVENTED_PLEG);
        Ok(options)
    }
}

fn credential_policy(written: &KubeletConfiguration) -> Result<CredentialPolicy, AgentError> {
    let refuse = |text: String| Err(AgentError::Setting(text));
    let patterns = &written.preloaded_images_verification_allowlist;
    let policy = written.image_pull_credentials_verification_policy.as_str();
    if !is_open(&written.feature_gates, gates::PULLED_WITH_SECRETS) {
        return if policy.is_empty() {
            Ok(CredentialPolicy::NeverVerify)
        } else {
            refuse(format!(
                "imagePullCredentialsVerificationPolicy needs the feature gate {}, which is off",
                gates::PULLED_WITH_SECRETS
            ))
        };
    }
    if policy != "NeverVerifyAllowlistedImages" && !patterns.is_empty() {
        return refuse(
            "preloadedImagesVerificationAllowlist is allowed only with the \
             imagePullCredentialsVerificationPolicy NeverVerifyAllowlistedImages"
                .to_owned(),
        );
    }
    match policy {
        "" | "NeverVerifyPreloadedImages" => Ok(CredentialPolicy::NeverVerifyPreloadedImages),
        "NeverVerify" => Ok(CredentialPolicy::NeverVerify),
        "AlwaysVerify" => Ok(CredentialPolicy::AlwaysVerify),
        "NeverVerifyAllowlistedImages" => Allowlist::read(patterns)
            .map(CredentialPolicy::NeverVerifyAllowlistedImages)
            .or_else(|why| refuse(format!("preloadedImagesVerificationAllowlist: {why}"))),
        other => refuse(format!(
            "imagePullCredentialsVerificationPolicy must be NeverVerify, \
             NeverVerifyPreloadedImages, NeverVerifyAllowlistedImages or AlwaysVerify, not {other:?}"
        )),
    }
}

fn memory_qos(written: &KubeletConfiguration) -> Result<Option<MemoryQos>, AgentError> {
    let factor = written.memory_throttling_factor.unwrap_or(0.9);
    if !(factor > 0.0 && factor <= 1.0) {
        return Err(AgentError::Setting(format!(
            "memoryThrottlingFactor must be above 0 and at most 1, not {factor}"
        )));
    }
    let tiered = match written.memory_reservation_policy.as_str() {
        "" | "None" => false,
        "TieredReservation" => true,
        other => {
            return Err(AgentError::Setting(format!(
                "memoryReservationPolicy must be None or TieredReservation, not {other:?}"
            )));
        }
    };
    if !is_open(&written.feature_gates, gates::MEMORY_QOS) {
        return if tiered {
            Err(AgentError::Setting(format!(
                "memoryReservationPolicy needs the feature gate {}",
                gates::MEMORY_QOS
            )))
        } else {
            Ok(None)
        };
    }
    Ok(Some(MemoryQos {
        throttling_factor: factor,
        tiered,
    }))
}

/// Why an agent fails to start or ends.
#[derive(Debug, Error)]
pub enum AgentError {
    /// A setting is invalid.
    #[error("{0}")]
    Setting(String),
    /// The manager does not start.
    #[error(transparent)]
    Manager(#[from] StartError),
    /// A file or directory cannot be created or read.
    #[error("cannot read or create {}: {source}", path.display())]
    File {
        /// The path.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The agent cannot listen on an address.
    #[error(
        "cannot listen on {address}: {source}; check whether another agent or kubelet is running"
    )]
    Listen {
        /// The address.
        address: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The certificate cannot be created or used.
    #[error("HTTPS server certificate: {0}")]
    Certificate(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_go_together() {
        let read = |change: &dyn Fn(&mut KubeletConfiguration)| {
            let mut options = AgentOptions::new("n", "/r");
            "unix:///run/x.sock".clone_into(&mut options.configuration.container_runtime_endpoint);
            change(&mut options.configuration);
            options.manager()
        };
        let gate = |name: &'static str, on: bool| {
            move |it: &mut KubeletConfiguration| {
                it.feature_gates.insert(name.to_owned(), on);
            }
        };
        let reduced = read(&gate("ReduceDefaultCrashLoopBackOffDecay", true)).unwrap();
        let secs = |it: &Options| {
            (
                it.first_restart_backoff.as_secs(),
                it.max_restart_backoff.as_secs(),
            )
        };
        assert_eq!(secs(&reduced), (1, 60));
        let usual = read(&|_| {}).unwrap();
        assert_eq!(secs(&usual), (10, 300));
        assert_eq!(usual.images.credential_policy, CredentialPolicy::default());
        assert!(usual.events && usual.cgroups.memory_qos.is_none());
        assert!(!read(&gate("EventedPLEG", false)).unwrap().events);
        let off = read(&gate("KubeletEnsureSecretPulledImages", false)).unwrap();
        assert_eq!(off.images.credential_policy, CredentialPolicy::NeverVerify);
        let qos = read(&gate("MemoryQoS", true)).unwrap().cgroups.memory_qos;
        assert!(qos.is_some_and(|it| !it.tiered && (it.throttling_factor - 0.9).abs() < 1e-9));
        type Change = fn(&mut KubeletConfiguration);
        let wrong: [(&str, Change); 8] = [
            ("maxContainerRestartPeriod", |it| {
                it.crash_loop_back_off.max_container_restart_period =
                    Some(Duration::from_secs(301));
            }),
            ("memoryThrottlingFactor", |it| {
                it.memory_throttling_factor = Some(0.0);
            }),
            ("memoryReservationPolicy", |it| {
                "Some".clone_into(&mut it.memory_reservation_policy);
            }),
            ("MemoryQoS", |it| {
                "TieredReservation".clone_into(&mut it.memory_reservation_policy);
            }),
            ("VerificationPolicy", |it| {
                "Sometimes".clone_into(&mut it.image_pull_credentials_verification_policy);
            }),
            ("VerificationAllowlist", |it| {
                it.preloaded_images_verification_allowlist = vec!["a".to_owned()];
            }),
            ("a tag", |it| {
                "NeverVerifyAllowlistedImages"
                    .clone_into(&mut it.image_pull_credentials_verification_policy);
                it.preloaded_images_verification_allowlist = vec!["a:1".to_owned()];
            }),
            ("feature gate", |it| {
                "AlwaysVerify".clone_into(&mut it.image_pull_credentials_verification_policy);
                it.feature_gates
                    .insert("KubeletEnsureSecretPulledImages".to_owned(), false);
            }),
        ];
        for (word, change) in wrong {
            let error = read(&change).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(word), "{word}: {error}");
        }
    }
}
