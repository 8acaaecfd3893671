//! What the service must be told. The binary fills this from its configuration file.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

pub use orlop_cgroup::Driver as CgroupDriver;
pub use orlop_cri_server::sessions::Streaming;
pub use orlop_image_store::{Config as Images, PolicyFiles, RegistriesFile};
pub use orlop_network::{Config as Network, DefaultNetwork, InProcess, IpPreference};

/// Everything that decides how the service runs.
#[derive(Debug, Clone)]
pub struct Config {
    /// The engine's unix socket.
    pub endpoint: PathBuf,
    /// Where cri-dockerd keeps its files: sandbox checkpoints are below it.
    pub root: PathBuf,
    /// The image of the sandboxes' process; `None` takes the built-in one.
    pub pause_image: Option<String>,
    /// Which images may be used, and how registries are asked about that; evidence is kept in its root. `None`: any
    /// image may be.
    pub policies: Option<Images>,
    /// Files with the node's own registry credentials.
    pub credential_files: Vec<PathBuf>,
    /// A pull that brings nothing for so long is ended.
    pub pull_progress_deadline: Duration,
    /// How long a call of the engine may take.
    pub request_timeout: Duration,
    /// The cgroup that the engine and this daemon are put into.
    pub runtime_cgroup: Option<String>,
    /// What the engine's cgroup driver must be; `None` takes what it is.
    pub cgroup_driver: Option<CgroupDriver>,
    /// Who makes the pods' networks.
    pub plugin: NetworkPlugin,
    /// How pods reach themselves through their own service, where we have the say.
    pub hairpin: Hairpin,
    /// Whether a pod has addresses of both families.
    pub dual_stack: bool,
    /// The networks of [`NetworkPlugin::Cni`].
    pub network: Network,
    /// Where exec, attach and port-forward sessions are served.
    pub streaming: Streaming,
    /// Limits and defaults for containers.
    pub containers: Containers,
    /// How long events are kept for listeners that come back; zero: not at all.
    pub event_backlog: Duration,
    /// The file that says who listens to them, for the next run.
    pub listeners: PathBuf,
}

/// Who makes the pods' networks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkPlugin {
    /// CNI, as everywhere.
    Cni,
    /// Nobody: pods have a loopback interface.
    None,
    /// The engine, on its own bridge.
    Bridge,
}

/// How a pod's packets to itself come back to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hairpin {
    /// The bridge takes all packets.
    PromiscuousBridge,
    /// The pod's port of the bridge sends back what came from it.
    HairpinVeth,
    /// They do not.
    None,
}

/// Limits and defaults for containers.
#[derive(Debug, Clone)]
pub struct Containers {
    /// Bytes at which a log line is split.
    pub max_log_line: usize,
    /// Bytes of output that ExecSync returns of each stream.
    pub exec_output_limit: usize,
    /// Bytes that the outputs of all commands may take together.
    pub exec_output_memory: usize,
    /// Bytes that an answer may have.
    pub message_limit: usize,
    /// Processes and threads per container.
    pub pids_limit: Option<i64>,
    /// Limits of setrlimit(2): name, soft, hard.
    pub ulimits: Vec<(String, i64, i64)>,
    /// Kernel settings of every pod with a network namespace of its own.
    pub sysctls: BTreeMap<String, String>,
    /// Whether the default seccomp profile serves where none is asked for.
    pub seccomp_when_unset: bool,
}
