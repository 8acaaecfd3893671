//! All that a manager is told at its start.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use orlop_cri_api::Endpoint;
use orlop_kubelet_rules::cri_config::{MemoryQos, SwapBehavior};
use orlop_kubelet_rules::gc::{ContainerPolicy, ImagePolicy};
use orlop_kubelet_rules::image::CredentialPolicy;

/// All that a manager is told at its start. [`Options::new`] fills in the kubelet's defaults.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where the runtime service listens.
    pub runtime_endpoint: Endpoint,
    /// Where the image service listens; the runtime's endpoint if `None`.
    pub image_endpoint: Option<Endpoint>,
    /// `runtimeRequestTimeout`.
    pub request_timeout: Duration,
    /// The node itself.
    pub node: NodeOptions,
    /// The manager's own directory: `pods/<uid>` and checkpoints are made beneath it.
    pub root_dir: PathBuf,
    /// `podLogsDir`.
    pub pod_logs_dir: PathBuf,
    /// Where log collectors look for `<pod>_<namespace>_<container>-<id>.log`; no links if `None`.
    pub container_logs_dir: Option<PathBuf>,
    /// `seccompDefault`: containers without a profile get the runtime's own.
    pub seccomp_default: bool,
    /// `memorySwap.swapBehavior`: what containers may swap.
    pub swap: SwapBehavior,
    /// `singleProcessOOMKill`: a process that is killed for want of memory does not take its
    /// container along, where the kernel's cgroups are of version 2.
    pub single_process_oom_kill: bool,
    /// The pods' cgroups.
    pub cgroups: CgroupOptions,
    /// The ids of pods with a user namespace of their own.
    pub user_namespaces: UserNamespaceOptions,
    /// The pods' name resolution.
    pub dns: DnsOptions,
    /// Pulling, credentials and removal of images.
    pub images: ImageOptions,
    /// Rotation of container logs.
    pub logs: LogOptions,
    /// How long a container that ended waits at first; no longer than at the most.
    pub first_restart_backoff: Duration,
    /// `crashLoopBackOff.maxContainerRestartPeriod`: how long it waits at the most.
    pub max_restart_backoff: Duration,
    /// How many dead containers stay.
    pub container_gc: ContainerPolicy,
    /// How often dead containers and sandboxes are looked for.
    pub container_gc_period: Duration,
    /// `syncFrequency`: how often a pod is looked at without anything having happened.
    pub resync: Duration,
    /// Ask the runtime for its events; relist every second where it has none.
    pub events: bool,
}

impl Options {
    /// The kubelet's defaults for a runtime and a root directory.
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

/// What pods learn of their node.
#[derive(Debug, Clone, Default)]
pub struct NodeOptions {
    /// The node's name (`spec.nodeName`).
    pub name: String,
    /// The node's addresses, the primary one first (`status.hostIPs`; the addresses of pods on
    /// the node's network).
    pub addresses: Vec<IpAddr>,
    /// The node's memory in bytes; read from the kernel if 0.
    pub memory: u64,
    /// The node's processors in thousandths; read from the kernel if 0.
    pub cpu_milli: u64,
    /// `allocatable` memory in bytes, what `limits.memory` shows where a container has no limit;
    /// `memory` if 0.
    pub allocatable_memory: u64,
    /// `allocatable` processors in thousandths; `cpu_milli` if 0.
    pub allocatable_cpu_milli: u64,
}

/// Who makes cgroups.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CgroupDriver {
    /// The manager itself, in the file system.
    #[default]
    Cgroupfs,
    /// systemd, as slices.
    Systemd,
}

/// The pods' cgroups.
#[derive(Debug, Clone)]
pub struct CgroupOptions {
    /// `cgroupsPerQOS`: make `kubepods/<class>/pod<uid>`. Else the runtime decides.
    pub per_qos: bool,
    /// `cgroupRoot`: what all of it is beneath.
    pub root: String,
    /// Who makes them.
    pub driver: CgroupDriver,
    /// `podPidsLimit`.
    pub pids_limit: Option<u64>,
    /// Hold containers to their processor limits (`cpuCFSQuota`).
    pub cpu_quota: bool,
    /// Keep memory for who asked for it, where cgroups are of version 2.
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

/// The ids of pods with a user namespace of their own.
#[derive(Debug, Clone, Copy)]
pub struct UserNamespaceOptions {
    /// `userNamespaces.idsPerPod`: how many ids each has, a multiple of 65536.
    pub ids_per_pod: u32,
    /// `maxPods`: for how many pods the node's ids must be enough.
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

/// The pods' name resolution.
#[derive(Debug, Clone)]
pub struct DnsOptions {
    /// `clusterDNS`; without any, `ClusterFirst` means `Default`.
    pub servers: Vec<IpAddr>,
    /// `clusterDomain`.
    pub domain: String,
    /// `resolvConf`: the node's own; empty for none.
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

/// Pulling, credentials and removal of images.
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
    /// Give a pull up that has had no answer for so long; the CRI tells no progress, so that this
    /// is about the whole pull. `None` waits for ever, as the kubelet does.
    pub pull_deadline: Option<Duration>,
    /// Directories to look for `config.json` and `.dockercfg` in before the usual ones
    /// (the root directory, the working directory, `$HOME`, `/`).
    pub docker_config_dirs: Vec<PathBuf>,
    /// `--image-credential-provider-config`: a `CredentialProviderConfig`.
    pub credential_provider_config: Option<PathBuf>,
    /// `--image-credential-provider-bin-dir`.
    pub credential_provider_bin_dir: Option<PathBuf>,
    /// Whose credentials are looked at again for an image that is here.
    pub credential_policy: CredentialPolicy,
    /// When unused images go.
    pub gc: ImagePolicy,
    /// How often that is looked at.
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

/// Rotation of container logs.
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
