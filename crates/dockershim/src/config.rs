//! Settings of the service. The binary fills this from its configuration file.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

pub use orlop_cgroup::Driver as CgroupDriver;
pub use orlop_cri_server::sessions::Streaming;
pub use orlop_image_store::{Config as Images, PolicyFiles, RegistriesFile};
pub use orlop_network::{Config as Network, DefaultNetwork, InProcess, IpPreference};

/// The settings of the service.
#[derive(Debug, Clone)]
pub struct Config {
    /// The path of the engine's unix socket.
    pub endpoint: PathBuf,
    /// The root directory of cri-dockerd; sandbox checkpoints are below it.
    pub root: PathBuf,
    /// The image of the pause process; `None` uses the built-in one.
    pub pause_image: Option<String>,
    /// The signature policies of images and how to query registries for signatures; evidence is stored in its root.
    /// `None` allows any image.
    pub policies: Option<Images>,
    /// Files with the node's own registry credentials.
    pub credential_files: Vec<PathBuf>,
    /// A pull without progress for this long is aborted.
    pub pull_progress_deadline: Duration,
    /// Timeout of a call to the engine.
    pub request_timeout: Duration,
    /// The cgroup for the engine and this daemon.
    pub runtime_cgroup: Option<String>,
    /// The required cgroup driver of the engine; `None` accepts the engine's.
    pub cgroup_driver: Option<CgroupDriver>,
    /// The network plugin that sets up the pods' networks.
    pub plugin: NetworkPlugin,
    /// How a pod reaches itself through its own service, if the network is not set up by CNI.
    pub hairpin: Hairpin,
    /// Whether a pod has addresses of both families.
    pub dual_stack: bool,
    /// The CNI configuration, for [`NetworkPlugin::Cni`].
    pub network: Network,
    /// Settings of the server for exec, attach and port-forward sessions.
    pub streaming: Streaming,
    /// Limits and defaults of containers.
    pub containers: Containers,
    /// How long events are kept for subscribers that reconnect; zero keeps none.
    pub event_backlog: Duration,
    /// The file that records the event subscribers for the next run.
    pub listeners: PathBuf,
}

/// The network plugin that sets up the pods' networks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkPlugin {
    /// CNI plugins.
    Cni,
    /// No network: pods have only a loopback interface.
    None,
    /// The engine's own bridge network.
    Bridge,
}

/// How the bridge returns a packet that a pod sends to itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hairpin {
    /// The bridge is in promiscuous mode.
    PromiscuousBridge,
    /// The pod's bridge port has hairpin mode on.
    HairpinVeth,
    /// The bridge does not return such packets.
    None,
}

/// Limits and defaults of containers.
#[derive(Debug, Clone)]
pub struct Containers {
    /// Bytes at which a log line is split.
    pub max_log_line: usize,
    /// Bytes that ExecSync returns of each output stream.
    pub exec_output_limit: usize,
    /// Limit in bytes of the buffered output of all ExecSync commands together.
    pub exec_output_memory: usize,
    /// Maximum size of a response in bytes.
    pub message_limit: usize,
    /// Maximum number of processes and threads per container.
    pub pids_limit: Option<i64>,
    /// Limits of setrlimit(2): name, soft, hard.
    pub ulimits: Vec<(String, i64, i64)>,
    /// Sysctls of every pod that has a network namespace of its own.
    pub sysctls: BTreeMap<String, String>,
    /// Whether the default seccomp profile applies if a container requests none.
    pub seccomp_when_unset: bool,
}
