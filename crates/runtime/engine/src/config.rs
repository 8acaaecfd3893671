//! What the engine must be told. The binary fills this from its configuration file.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

pub use orlop_cgroup::Driver as CgroupDriver;
pub use orlop_cri_server::sessions::Streaming;
pub use orlop_image_store::{
    Config as Images, KeyFiles, LazySettings as LazyImages, NamespaceCredentials, Platform,
    PolicyFiles, RegistriesFile, StoreForm as ImageStore,
};
pub use orlop_network::{Cidr, Config as Network, DefaultNetwork, InProcess, IpPreference};
pub use orlop_nri::{Config as Plugins, Listen as PluginListen, validator::Validator};

pub use orlop_launch::LogPolicy;
pub use orlop_oci_types::Rlimit;

pub use crate::spec::{
    BaseSpec, BlockIoClasses, CDI_DIRS, ExecAffinity, HandlerRules, Policy, RdtClasses,
    SELINUX_CATEGORIES, Timezone, problem_of_defaults,
};

/// Where programs without a path are looked for, whatever the PATH.
pub const PROGRAM_DIRS: [&str; 6] = [
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
];

/// Everything that decides how the native service runs.
#[derive(Debug, Clone)]
pub struct Config {
    /// Images and networks; survives a reboot.
    pub root: PathBuf,
    /// Records and writable layers; the same, or on another disk.
    pub containers_root: PathBuf,
    /// Sockets, namespaces and exit records; on tmpfs, gone at a reboot.
    pub state: PathBuf,
    /// The `orlop-keeper` program.
    pub keeper: PathBuf,
    /// Where keepers live in the cgroup hierarchy; `None` finds a place: below the daemon's own
    /// cgroup with systemd, else `/orlop/keepers`.
    pub keeper_cgroup: Option<String>,
    /// How container cgroups are named and made; `None` finds out from the machine.
    pub cgroup_driver: Option<CgroupDriver>,
    /// The handler for pods that name none; `None` takes the first runtime that works here.
    pub default_runtime: Option<String>,
    /// Runtimes by handler name. When empty, `orlop-run`, `crun` and `runc` are looked for.
    pub runtimes: BTreeMap<String, RuntimeHandler>,
    /// The image store.
    pub images: Images,
    /// The pods' networks.
    pub network: Network,
    /// How often attachments without a pod are looked for; `None`: at the start only.
    pub network_gc_interval: Option<Duration>,
    /// Where exec, attach and port-forward sessions are served.
    pub streaming: Streaming,
    /// Limits and defaults for containers.
    pub containers: Containers,
    /// How long events are kept for listeners that come back; zero: not at all.
    pub event_backlog: Duration,
    /// Plugins of the Node Resource Interface; `None`: there are none.
    pub nri: Option<Plugins>,
}

/// A low-level runtime that pods choose by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RuntimeHandler {
    /// The program, by path or by name.
    pub path: PathBuf,
    /// How it is spoken to.
    pub kind: RuntimeKind,
    /// Options put before its subcommand.
    pub args: Vec<String>,
    /// Its state directory; `None` gives it one below [`Config::state`].
    pub root: Option<PathBuf>,
    /// Pod annotations (names, or beginnings ending in `*`) handed to the runtime.
    pub pod_annotations: Vec<String>,
    /// Container annotations handed to the runtime, likewise.
    pub container_annotations: Vec<String>,
    /// Whether privileged containers do without the host's devices.
    pub privileged_without_host_devices: bool,
    /// What its pods and containers get besides.
    pub rules: HandlerRules,
    /// CNI configuration for this handler's pods instead of the node's.
    pub cni_conf_dir: Option<PathBuf>,
}

impl RuntimeHandler {
    /// Whether the containers of a pod share something that is made with the first of them and
    /// has to be ended after the last.
    pub fn is_shim(&self) -> bool {
        self.kind != RuntimeKind::Oci
    }

    /// Whether images are pulled where the containers run, so that no layer is needed here.
    pub fn guest_pull(&self) -> bool {
        matches!(
            self.kind,
            RuntimeKind::Shim {
                guest_pull: true,
                ..
            }
        )
    }

    /// Whether somebody else than its shim's tasks makes that, and knows how it is.
    pub fn has_controller(&self) -> bool {
        matches!(&self.kind, RuntimeKind::Shim { sandboxer, .. } if *sandboxer != Sandboxer::Podsandbox)
    }
}

/// How a runtime is spoken to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum RuntimeKind {
    /// By a command line that works like runc's.
    #[default]
    Oci,
    /// The same, but its containers live in one that is made for the pod; `orlop-shim` makes it, and
    /// stands for their processes.
    Sandboxed,
    /// It is a shim of containerd's; `orlop-shim` beside the keeper puts it behind such a command
    /// line.
    Shim {
        /// What it is told to read.
        config: Option<PathBuf>,
        /// In options of which type; empty: as its name lets expect.
        config_type: String,
        /// Whether it is told what is in the file, and not where it is.
        config_body: bool,
        /// Whether its guests pull their images by themselves.
        guest_pull: bool,
        /// Who makes what the containers of a pod share.
        sandboxer: Sandboxer,
    },
}

/// Who makes what the containers of a pod share, in containerd's words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Sandboxer {
    /// A task that only waits.
    #[default]
    Podsandbox,
    /// The shim's Sandbox service.
    Shim,
    /// A Controller behind a socket.
    Proxy {
        /// The socket.
        address: PathBuf,
        /// What it is called there.
        name: String,
    },
}

/// Limits and defaults for containers.
#[derive(Debug, Clone)]
pub struct Containers {
    /// Bytes at which a log line is split.
    pub max_log_line: usize,
    /// What happens to output while the log's disk is too slow for it.
    pub log_policy: LogPolicy,
    /// Bytes of log that a container may write in a second.
    pub log_rate: Option<u32>,
    /// Bytes of log that a container may write before its file is rotated.
    pub log_size: Option<u64>,
    /// Bytes of output that ExecSync returns of each stream.
    pub exec_output_limit: usize,
    /// Bytes that the outputs of all commands may take together.
    pub exec_output_memory: usize,
    /// Bytes that an answer may have.
    pub message_limit: usize,
    /// Whether containers are restored from images that are checkpoints.
    pub restore_images: bool,
    /// Whether containers and pods may go on from archives that clients name by their paths.
    pub restore_archives: bool,
    /// What concerns the OCI specification.
    pub policy: Policy,
}

impl Default for Containers {
    fn default() -> Self {
        Self {
            max_log_line: 16 * 1024,
            log_policy: LogPolicy::Block,
            log_rate: None,
            log_size: None,
            exec_output_limit: 16 * 1024 * 1024,
            exec_output_memory: 64 * 1024 * 1024,
            message_limit: 16 * 1024 * 1024,
            restore_images: false,
            restore_archives: true,
            policy: Policy::default(),
        }
    }
}
