//! Options of a manager.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use orlop_cri_api::Endpoint;
use orlop_kubelet_rules::cri_config::{MemoryQos, SwapBehavior};
use orlop_kubelet_rules::gc::{ContainerPolicy, ImagePolicy};
use orlop_kubelet_rules::image::CredentialPolicy;

/// Options of a manager. [`Options::new`] sets the kubelet's defaults.
#[derive(Debug, Clone)]
pub struct Options {
    /// Endpoint of the runtime service.
    pub runtime_endpoint: Endpoint,
    /// Endpoint of the image service; the runtime's endpoint if `None`.
    pub image_endpoint: Option<Endpoint>,
    /// `runtimeRequestTimeout`.
    pub request_timeout: Duration,
    /// Properties of the node.
    pub node: NodeOptions,
    /// The manager's own directory, with `pods/<uid>` and the checkpoints.
    pub root_dir: PathBuf,
    /// `podLogsDir`.
    pub pod_logs_dir: PathBuf,
    /// Directory of the links `<pod>_<namespace>_<container>-<id>.log` for log collectors; no links
    /// if `None`.
    pub container_logs_dir: Option<PathBuf>,
    /// `seccompDefault`: containers without a seccomp profile get the runtime's default profile.
    pub seccomp_default: bool,
    /// `memorySwap.swapBehavior`: how much swap containers may use.
    pub swap: SwapBehavior,
    /// `singleProcessOOMKill`: the OOM killer kills one process instead of the whole container, on
    /// cgroup v2.
    pub single_process_oom_kill: bool,
    /// Settings of pod cgroups.
    pub cgroups: CgroupOptions,
    /// Id ranges for pods with their own user namespace.
    pub user_namespaces: UserNamespaceOptions,
    /// DNS settings of pods.
    pub dns: DnsOptions,
    /// Image pulls, credentials and garbage collection.
    pub images: ImageOptions,
    /// Log rotation.
    pub logs: LogOptions,
    /// The first delay before an exited container restarts; `max_restart_backoff` caps it.
    pub first_restart_backoff: Duration,
    /// `crashLoopBackOff.maxContainerRestartPeriod`: the longest restart delay.
    pub max_restart_backoff: Duration,
    /// How many dead containers are kept.
    pub container_gc: ContainerPolicy,
    /// How often dead containers and sandboxes are collected.
    pub container_gc_period: Duration,
    /// `syncFrequency`: how often a pod is synced if nothing happens.
    pub resync: Duration,
    /// Use the runtime's container events; without them, the manager relists every second.
    pub events: bool,
}

impl Options {
    /// Creates options with the kubelet's defaults for a runtime and a root directory.
    pub fn new(runtime_endpoint: Endpoint, root_dir: impl Into<PathBuf>) -> Self {
        let root_dir = root_dir.into();
        Self {
            runtime_endpoint,
            image_endpoint: None,
            request_timeout: Duration::from_mins(2),
            node: NodeOptions::default(),
            root_dir,
            pod_logs_dir: "/var/log/pods".into(),
            container_logs_dir: Some("/var/log/containers".into()),
            seccomp_default: false,
            swap: SwapBehavior::default(),
            single_process_oom_kill: false,
            cgroups: CgroupOptions::default(),
            user_namespaces: UserNamespaceOptions::default(),
            dns: DnsOptions::default(),
            images: ImageOptions::default(),
            logs: LogOptions::default(),
            first_restart_backoff: orlop_kubelet_rules::backoff::INITIAL,
            max_restart_backoff: orlop_kubelet_rules::backoff::MAXIMUM,
            container_gc: ContainerPolicy::default(),
            container_gc_period: Duration::from_mins(1),
            resync: Duration::from_mins(1),
            events: true,
        }
    }
}

/// Properties of the node that pods can see.
#[derive(Debug, Clone, Default)]
pub struct NodeOptions {
    /// The node's name (`spec.nodeName`).
    pub name: String,
    /// The node's addresses, the primary one first (`status.hostIPs`, and the addresses of host
    /// network pods).
    pub addresses: Vec<IpAddr>,
    /// The node's memory in bytes; read from the kernel if 0.
    pub memory: u64,
    /// The node's CPUs in millicores; read from the kernel if 0.
    pub cpu_milli: u64,
    /// `allocatable` memory in bytes, the value of `limits.memory` for a container without a limit;
    /// `memory` if 0.
    pub allocatable_memory: u64,
    /// `allocatable` CPUs in millicores; `cpu_milli` if 0.
    pub allocatable_cpu_milli: u64,
}

/// The cgroup driver.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CgroupDriver {
    /// The manager itself, through the cgroup file system.
    #[default]
    Cgroupfs,
    /// systemd, as slices.
    Systemd,
}

/// Settings of pod cgroups.
#[derive(Debug, Clone)]
pub struct CgroupOptions {
    /// `cgroupsPerQOS`: create `kubepods/<class>/pod<uid>`. Otherwise the runtime chooses the
    /// cgroup.
    pub per_qos: bool,
    /// `cgroupRoot`: the parent of all pod cgroups.
    pub root: String,
    /// The cgroup driver.
    pub driver: CgroupDriver,
    /// `podPidsLimit`.
    pub pids_limit: Option<u64>,
    /// `cpuCFSQuota`: enforce CPU limits.
    pub cpu_quota: bool,
    /// Protect requested memory, on cgroup v2.
    pub memory_qos: Option<MemoryQos>,
}

impl Default for CgroupOptions {
    fn default() -> Self {
        Self {
            per_qos: true,
            root: "/".to_owned(),
            driver: CgroupDriver::default(),
            pids_limit: None,
            cpu_quota: true,
            memory_qos: None,
        }
    }
}

/// Id ranges for pods with their own user namespace.
#[derive(Debug, Clone, Copy)]
pub struct UserNamespaceOptions {
    /// `userNamespaces.idsPerPod`: number of ids per pod, a multiple of 65536.
    pub ids_per_pod: u32,
    /// `maxPods`: the node must have enough ids for this many pods.
    pub max_pods: u32,
}

impl Default for UserNamespaceOptions {
    fn default() -> Self {
        Self {
            ids_per_pod: 65536,
            max_pods: 110,
        }
    }
}

/// DNS settings of pods.
#[derive(Debug, Clone)]
pub struct DnsOptions {
    /// `clusterDNS`; without servers, `ClusterFirst` means `Default`.
    pub servers: Vec<IpAddr>,
    /// `clusterDomain`.
    pub domain: String,
    /// `resolvConf`: the node's own resolver file; empty for none.
    pub resolv_conf: PathBuf,
}

impl Default for DnsOptions {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            domain: String::new(),
            resolv_conf: "/etc/resolv.conf".into(),
        }
    }
}

/// Image pulls, credentials and garbage collection.
#[derive(Debug, Clone)]
pub struct ImageOptions {
    /// `serializeImagePulls`: one pull at a time.
    pub serialize_pulls: bool,
    /// `maxParallelImagePulls`, when not serialized; `None` for no limit.
    pub max_parallel_pulls: Option<usize>,
    /// `registryPullQPS`; 0 for no limit.
    pub pull_qps: u32,
    /// `registryBurst`.
    pub pull_burst: u32,
    /// Timeout of a whole pull, because the CRI reports no progress. `None` waits forever, as the
    /// kubelet does.
    pub pull_deadline: Option<Duration>,
    /// Directories to search for `config.json` and `.dockercfg` before the default ones (the root
    /// directory, the working directory, `$HOME`, `/`).
    pub docker_config_dirs: Vec<PathBuf>,
    /// `--image-credential-provider-config`: a `CredentialProviderConfig`.
    pub credential_provider_config: Option<PathBuf>,
    /// `--image-credential-provider-bin-dir`.
    pub credential_provider_bin_dir: Option<PathBuf>,
    /// Whether credentials are verified again for an image that is present.
    pub credential_policy: CredentialPolicy,
    /// When unused images are removed.
    pub gc: ImagePolicy,
    /// How often image garbage collection runs.
    pub gc_period: Duration,
}

impl Default for ImageOptions {
    fn default() -> Self {
        Self {
            serialize_pulls: true,
            max_parallel_pulls: None,
            pull_qps: 5,
            pull_burst: 10,
            pull_deadline: None,
            docker_config_dirs: Vec::new(),
            credential_provider_config: None,
            credential_provider_bin_dir: None,
            credential_policy: CredentialPolicy::default(),
            gc: ImagePolicy::default(),
            gc_period: Duration::from_mins(5),
        }
    }
}

/// Log rotation.
#[derive(Debug, Clone)]
pub struct LogOptions {
    /// `containerLogMaxSize` in bytes; no rotation if 0.
    pub max_size: u64,
    /// `containerLogMaxFiles`, the current one included; at least 2.
    pub max_files: usize,
    /// `containerLogMonitorInterval`.
    pub period: Duration,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            max_size: 10 << 20,
            max_files: 5,
            period: Duration::from_secs(10),
        }
    }
}
