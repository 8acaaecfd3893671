//! The fields of a `KubeletConfiguration` that have an effect.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use orlop_kubelet_rules::pod::Quantity;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The fields of a `KubeletConfiguration` that have an effect, under its names, each at the
/// kubelet's default unless said otherwise.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KubeletConfiguration {
    /// Whether there is an HTTPS server at all.
    pub enable_server: bool,
    /// A directory of manifests, or one file.
    pub static_pod_path: String,
    /// Where the pods' logs are.
    pub pod_logs_dir: String,
    /// How often a pod is looked at without anything having happened.
    #[serde(with = "go")]
    pub sync_frequency: Duration,
    /// How often manifests are read without a change having been noticed.
    #[serde(with = "go")]
    pub file_check_frequency: Duration,
    /// How often the URL is asked.
    #[serde(with = "go")]
    pub http_check_frequency: Duration,
    /// A URL with manifests.
    #[serde(rename = "staticPodURL")]
    pub static_pod_url: String,
    /// Headers for that URL.
    #[serde(rename = "staticPodURLHeader")]
    pub static_pod_url_header: BTreeMap<String, Vec<String>>,
    /// Where the servers listen. Unlike the kubelet's, this is loopback until said otherwise.
    pub address: IpAddr,
    /// The HTTPS server's port.
    pub port: u16,
    /// The port of the server that asks for no credentials; 0 for none.
    pub read_only_port: u16,
    /// A certificate for HTTPS; without one the agent makes its own.
    pub tls_cert_file: String,
    /// The certificate's key.
    pub tls_private_key_file: String,
    /// `VersionTLS12` or `VersionTLS13`.
    pub tls_min_version: String,
    /// Who may come in.
    pub authentication: Authentication,
    /// What they may do.
    pub authorization: Authorization,
    /// Pulls per second; 0 for no bound.
    #[serde(rename = "registryPullQPS")]
    pub registry_pull_qps: u32,
    /// Pulls at once above that.
    pub registry_burst: u32,
    /// Whether logs, exec, attach and port-forward are served.
    pub enable_debugging_handlers: bool,
    /// The port of `/healthz` without credentials; 0 for none.
    pub healthz_port: u16,
    /// Where that one listens.
    pub healthz_bind_address: IpAddr,
    /// The agent's own `oom_score_adj`.
    pub oom_score_adj: i32,
    /// The domain of services.
    pub cluster_domain: String,
    /// Name servers of pods.
    #[serde(rename = "clusterDNS")]
    pub cluster_dns: Vec<IpAddr>,
    /// An exec, attach or port-forward without traffic ends after so long.
    #[serde(with = "go")]
    pub streaming_connection_idle_timeout: Duration,
    /// Unused images stay at least so long.
    #[serde(rename = "imageMinimumGCAge", with = "go")]
    pub image_minimum_gc_age: Duration,
    /// Unused images stay no longer; 0 for no bound.
    #[serde(rename = "imageMaximumGCAge", with = "go")]
    pub image_maximum_gc_age: Duration,
    /// Above it images are removed.
    #[serde(rename = "imageGCHighThresholdPercent")]
    pub image_gc_high_threshold_percent: u8,
    /// Until this is reached.
    #[serde(rename = "imageGCLowThresholdPercent")]
    pub image_gc_low_threshold_percent: u8,
    /// What the pods' cgroups are beneath.
    pub cgroup_root: String,
    /// Whether pods have cgroups by class.
    #[serde(rename = "cgroupsPerQOS")]
    pub cgroups_per_qos: bool,
    /// `cgroupfs` or `systemd`.
    pub cgroup_driver: String,
    /// How long the runtime may take.
    #[serde(with = "go")]
    pub runtime_request_timeout: Duration,
    /// How many pods there may be.
    pub max_pods: u32,
    /// How many processes a pod may have; negative for no bound.
    pub pod_pids_limit: i64,
    /// The node's name resolution.
    pub resolv_conf: String,
    /// Whether processor limits hold.
    #[serde(rename = "cpuCFSQuota")]
    pub cpu_cfs_quota: bool,
    /// Files that the agent may have open.
    pub max_open_files: u64,
    /// One pull at a time; on unless `maxParallelImagePulls` is 2 or more.
    pub serialize_image_pulls: Option<bool>,
    /// Pulls at the same time.
    pub max_parallel_image_pulls: Option<usize>,
    /// Signals and thresholds at which pods are ended at once.
    pub eviction_hard: Option<BTreeMap<String, String>>,
    /// Those at which they are ended after a while.
    pub eviction_soft: BTreeMap<String, String>,
    /// How long that while is.
    pub eviction_soft_grace_period: BTreeMap<String, String>,
    /// How long the node is said to be under pressure after it no longer is.
    #[serde(with = "go")]
    pub eviction_pressure_transition_period: Duration,
    /// The longest grace period of pods that a soft threshold ends.
    pub eviction_max_pod_grace_period: i64,
    /// How much is reclaimed beyond a threshold.
    pub eviction_minimum_reclaim: BTreeMap<String, String>,
    /// Whether signals that `evictionHard` does not name keep their defaults.
    pub merge_default_eviction_settings: bool,
    /// How many pods there may be for each processor; 0 for no bound.
    pub pods_per_core: u32,
    /// Refuse to start while the node swaps. Unlike the kubelet's, this is off until said
    /// otherwise.
    pub fail_swap_on: bool,
    /// Above it a log is rotated.
    #[serde(serialize_with = "quantity")]
    pub container_log_max_size: Quantity,
    /// How many files a log has.
    pub container_log_max_files: u32,
    /// How often logs are looked at.
    #[serde(with = "go")]
    pub container_log_monitor_interval: Duration,
    /// What pods may not use.
    pub system_reserved: BTreeMap<String, String>,
    /// What pods may not use.
    pub kube_reserved: BTreeMap<String, String>,
    /// Sysctls that pods may set although they reach beyond them; `*` at the end stands for more.
    pub allowed_unsafe_sysctls: Vec<String>,
    /// How long all pods may take to end when the agent is told to.
    #[serde(with = "go")]
    pub shutdown_grace_period: Duration,
    /// How much of that is for critical pods, after all others.
    #[serde(with = "go")]
    pub shutdown_grace_period_critical_pods: Duration,
    /// The same, by priority.
    pub shutdown_grace_period_by_pod_priority: Vec<PriorityGrace>,
    /// How long a failing container waits.
    pub crash_loop_back_off: CrashLoopBackOff,
    /// Whether containers without a profile get the runtime's.
    pub seccomp_default: bool,
    /// The runtime.
    pub container_runtime_endpoint: String,
    /// Its image service, if another.
    pub image_service_endpoint: String,
    /// Refuse to start on cgroup v1. Unlike the kubelet's, this is off until said otherwise.
    #[serde(rename = "failCgroupV1")]
    pub fail_cgroup_v1: bool,
    /// What containers may swap.
    pub memory_swap: MemorySwap,
    /// Whether a process that is killed for want of memory leaves the rest of its container alone.
    #[serde(rename = "singleProcessOOMKill")]
    pub single_process_oom_kill: bool,
    /// Pods with a user namespace of their own.
    pub user_namespaces: UserNamespaces,
    /// What is not for everybody yet, or no more.
    pub feature_gates: BTreeMap<String, bool>,
    /// Whose credentials are looked at again for an image that is here:
    /// `NeverVerifyPreloadedImages`, `NeverVerify`, `NeverVerifyAllowlistedImages`, `AlwaysVerify`.
    pub image_pull_credentials_verification_policy: String,
    /// The images for which `NeverVerifyAllowlistedImages` asks nobody.
    pub preloaded_images_verification_allowlist: Vec<String>,
    /// From which part above its request on a container is slowed down (gate `MemoryQoS`).
    pub memory_throttling_factor: Option<f64>,
    /// `None` or `TieredReservation`: whether requested memory is kept (gate `MemoryQoS`).
    pub memory_reservation_policy: String,
}

/// Who may come in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Authentication {
    /// By certificate.
    pub x509: X509,
    /// By asking an API server, which is not possible here.
    pub webhook: Webhook,
    /// Without anything.
    pub anonymous: Anonymous,
}

/// By certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct X509 {
    /// The authority of the clients' certificates.
    #[serde(rename = "clientCAFile")]
    pub client_ca_file: String,
}

/// By asking an API server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Webhook {
    /// Whether to.
    pub enabled: bool,
}

/// Without anything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Anonymous {
    /// Whether to.
    pub enabled: bool,
}

/// What clients may do.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Authorization {
    /// `AlwaysAllow`; `Webhook` is not possible here.
    pub mode: String,
}

impl Default for Authorization {
    fn default() -> Self {
        Self {
            mode: "AlwaysAllow".to_owned(),
        }
    }
}

/// How long pods of at least some priority may take to end with the node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PriorityGrace {
    /// The least priority.
    pub priority: i32,
    /// How long.
    pub shutdown_grace_period_seconds: u64,
}

/// How long a failing container waits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CrashLoopBackOff {
    /// At the most.
    #[serde(with = "go_option", skip_serializing_if = "Option::is_none")]
    pub max_container_restart_period: Option<Duration>,
}

/// What containers may swap.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MemorySwap {
    /// `NoSwap` or `LimitedSwap`.
    pub swap_behavior: String,
}

/// Pods with a user namespace of their own.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UserNamespaces {
    /// How many ids each has.
    pub ids_per_pod: u32,
}

impl Default for UserNamespaces {
    fn default() -> Self {
        Self { ids_per_pod: 65536 }
    }
}

impl Default for KubeletConfiguration {
    fn default() -> Self {
        const LOOPBACK: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
        Self {
            enable_server: true,
            static_pod_path: String::new(),
            pod_logs_dir: "/var/log/pods".to_owned(),
            sync_frequency: Duration::from_mins(1),
            file_check_frequency: Duration::from_secs(20),
            http_check_frequency: Duration::from_secs(20),
            static_pod_url: String::new(),
            static_pod_url_header: BTreeMap::new(),
            address: LOOPBACK,
            port: 10250,
            read_only_port: 0,
            tls_cert_file: String::new(),
            tls_private_key_file: String::new(),
            tls_min_version: String::new(),
            authentication: Authentication::default(),
            authorization: Authorization::default(),
            registry_pull_qps: 5,
            registry_burst: 10,
            enable_debugging_handlers: true,
            healthz_port: 10248,
            healthz_bind_address: LOOPBACK,
            oom_score_adj: -999,
            cluster_domain: String::new(),
            cluster_dns: Vec::new(),
            streaming_connection_idle_timeout: Duration::from_hours(4),
            image_minimum_gc_age: Duration::from_mins(2),
            image_maximum_gc_age: Duration::ZERO,
            image_gc_high_threshold_percent: 85,
            image_gc_low_threshold_percent: 80,
            cgroup_root: String::new(),
            cgroups_per_qos: true,
            cgroup_driver: "cgroupfs".to_owned(),
            runtime_request_timeout: Duration::from_mins(2),
            max_pods: 110,
            pod_pids_limit: -1,
            resolv_conf: "/etc/resolv.conf".to_owned(),
            cpu_cfs_quota: true,
            max_open_files: 1_000_000,
            serialize_image_pulls: None,
            max_parallel_image_pulls: None,
            eviction_hard: None,
            eviction_soft: BTreeMap::new(),
            eviction_soft_grace_period: BTreeMap::new(),
            eviction_pressure_transition_period: Duration::from_mins(5),
            eviction_max_pod_grace_period: 0,
            eviction_minimum_reclaim: BTreeMap::new(),
            merge_default_eviction_settings: false,
            pods_per_core: 0,
            fail_swap_on: false,
            container_log_max_size: Quantity::from_bytes(10 << 20),
            container_log_max_files: 5,
            container_log_monitor_interval: Duration::from_secs(10),
            system_reserved: BTreeMap::new(),
            kube_reserved: BTreeMap::new(),
            allowed_unsafe_sysctls: Vec::new(),
            shutdown_grace_period: Duration::ZERO,
            shutdown_grace_period_critical_pods: Duration::ZERO,
            shutdown_grace_period_by_pod_priority: Vec::new(),
            crash_loop_back_off: CrashLoopBackOff::default(),
            seccomp_default: false,
            container_runtime_endpoint: String::new(),
            image_service_endpoint: String::new(),
            fail_cgroup_v1: false,
            memory_swap: MemorySwap::default(),
            single_process_oom_kill: false,
            user_namespaces: UserNamespaces::default(),
            feature_gates: BTreeMap::new(),
            image_pull_credentials_verification_policy: String::new(),
            preloaded_images_verification_allowlist: Vec::new(),
            memory_throttling_factor: None,
            memory_reservation_policy: String::new(),
        }
    }
}

impl KubeletConfiguration {
    /// Where Kubernetes takes a zero for a field that is not there, so does this.
    pub(super) fn without_zeros(mut self) -> Self {
        let defaults = Self::default();
        let fill = |field: &mut Duration, default: Duration| {
            if field.is_zero() {
                *field = default;
            }
        };
        fill(&mut self.sync_frequency, defaults.sync_frequency);
        fill(
            &mut self.file_check_frequency,
            defaults.file_check_frequency,
        );
        fill(
            &mut self.http_check_frequency,
            defaults.http_check_frequency,
        );
        fill(
            &mut self.streaming_connection_idle_timeout,
            defaults.streaming_connection_idle_timeout,
        );
        fill(
            &mut self.image_minimum_gc_age,
            defaults.image_minimum_gc_age,
        );
        fill(
            &mut self.runtime_request_timeout,
            defaults.runtime_request_timeout,
        );
        fill(
            &mut self.eviction_pressure_transition_period,
            defaults.eviction_pressure_transition_period,
        );
        if self.port == 0 {
            self.port = defaults.port;
        }
        if self.registry_burst == 0 {
            self.registry_burst = defaults.registry_burst;
        }
        if self.max_pods == 0 {
            self.max_pods = defaults.max_pods;
        }
        if self.max_open_files == 0 {
            self.max_open_files = defaults.max_open_files;
        }
        self
    }
}

fn quantity<S: Serializer>(value: &Quantity, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(value)
}

/// Lengths of time in Go's writing.
mod go {
    use super::{Deserialize, Deserializer, Duration, Serializer};

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        let text = String::deserialize(from)?;
        orlop_duration::parse(&text)
            .map_err(|_| serde::de::Error::custom(format!("{text:?} is no length of time")))
    }

    pub(super) fn serialize<S: Serializer>(value: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&orlop_duration::go(*value))
    }
}

mod go_option {
    use super::{Deserializer, Duration, Serializer, go};

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        go::deserialize(from).map(Some)
    }

    #[allow(clippy::ref_option, reason = "serde's own signature")]
    pub(super) fn serialize<S: Serializer>(
        value: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => go::serialize(value, to),
            None => to.serialize_none(),
        }
    }
}
