//! The engine's configuration. The binary fills it from its configuration file.

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

/// Directories that are searched for programs without a path, whatever `PATH` says.
pub const PROGRAM_DIRS: [&str; 6] = [
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
];

/// The configuration of the native service.
#[derive(Debug, Clone)]
pub struct Config {
    /// Directory of images and networks; survives a reboot.
    pub root: PathBuf,
    /// Directory of records and writable layers; the same as `root`, or on another disk.
    pub containers_root: PathBuf,
    /// Directory of sockets, namespaces and exit records; on tmpfs, lost at a reboot.
    pub state: PathBuf,
    /// Path of the `orlop-keeper` program.
    pub keeper: PathBuf,
    /// The cgroup of keepers. `None` selects a default: below the daemon's own cgroup with systemd, else
    /// `/orlop/keepers`.
    pub keeper_cgroup: Option<String>,
    /// The cgroup driver, which names and makes container cgroups; `None` detects it.
    pub cgroup_driver: Option<CgroupDriver>,
    /// The handler for pods that name none; `None` selects the first runtime that works on this node.
    pub default_runtime: Option<String>,
    /// Runtimes by handler name. If empty, the engine looks for `orlop-run`, `crun` and `runc`.
    pub runtimes: BTreeMap<String, RuntimeHandler>,
    /// Settings of the image store.
    pub images: Images,
    /// Settings of pod networks.
    pub network: Network,
    /// Interval of the search for network attachments without a pod; `None`: only at the start.
    pub network_gc_interval: Option<Duration>,
    /// Settings of the server for exec, attach and port-forward sessions.
    pub streaming: Streaming,
    /// Limits and defaults for containers.
    pub containers: Containers,
    /// Time for which events are kept for listeners that reconnect; zero: not at all.
    pub event_backlog: Duration,
    /// Plugins of the Node Resource Interface; `None` disables them.
    pub nri: Option<Plugins>,
}

/// A low-level runtime that pods choose by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RuntimeHandler {
    /// The program, by path or by name.
    pub path: PathBuf,
    /// The interface of the runtime.
    pub kind: RuntimeKind,
    /// Options put before the runtime's subcommand.
    pub args: Vec<String>,
    /// The runtime's state directory; `None` selects one below [`Config::state`].
    pub root: Option<PathBuf>,
    /// Pod annotations (names, or prefixes ending in `*`) passed to the runtime.
    pub pod_annotations: Vec<String>,
    /// Container annotations passed to the runtime, in the same form.
    pub container_annotations: Vec<String>,
    /// Whether privileged containers get no host devices.
    pub privileged_without_host_devices: bool,
    /// Additional rules for pods and containers of this handler.
    pub rules: HandlerRules,
    /// Directory of the CNI configuration for this handler's pods, instead of the node's.
    pub cni_conf_dir: Option<PathBuf>,
}

impl RuntimeHandler {
    /// Whether the containers of a pod share a sandbox, which is made with the first container and has to be
    /// ended after the last.
    pub fn is_shim(&self) -> bool {
        self.kind != RuntimeKind::Oci
    }

    /// Whether the guest pulls the images, so that the node needs no layers.
    pub fn guest_pull(&self) -> bool {
        matches!(
            self.kind,
            RuntimeKind::Shim {
                guest_pull: true,
                ..
            }
        )
    }

    /// Whether a sandbox controller makes the sandbox and reports its state, rather than the shim's tasks.
    pub fn has_controller(&self) -> bool {
        matches!(&self.kind, RuntimeKind::Shim { sandboxer, .. } if *sandboxer != Sandboxer::Podsandbox)
    }
}

/// The interface of a runtime.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum RuntimeKind {
    /// A command line that works like runc's.
    #[default]
    Oci,
    /// A command line like runc's, but the containers of a pod run in a sandbox. `orlop-shim` makes the sandbox and
    /// represents the containers' processes.
    Sandboxed,
    /// A containerd shim. `orlop-shim`, installed beside the keeper, offers a command line like runc's for it.
    Shim {
        /// Path of the shim's configuration file.
        config: Option<PathBuf>,
        /// Type of the options message that carries the configuration; empty: derived from the shim's name.
        config_type: String,
        /// Whether the shim gets the content of the file instead of its path.
        config_body: bool,
        /// Whether the shim's guests pull their images themselves.
        guest_pull: bool,
        /// What creates the pod's sandbox.
        sandboxer: Sandboxer,
    },
}

/// What creates a pod's sandbox. The variants are named as in containerd's `sandboxer` option.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Sandboxer {
    /// A task that only waits.
    #[default]
    Podsandbox,
    /// The shim's Sandbox service.
    Shim,
    /// A sandbox controller behind a socket.
    Proxy {
        /// The path of the socket.
        address: PathBuf,
        /// The name of the sandboxer there.
        name: String,
    },
}

/// Limits and defaults for containers.
#[derive(Debug, Clone)]
pub struct Containers {
    /// Bytes at which a log line is split.
    pub max_log_line: usize,
    /// Treatment of output if the log's disk is too slow.
    pub log_policy: LogPolicy,
    /// Bytes of log that a container may write per second.
    pub log_rate: Option<u32>,
    /// Bytes of log that a container may write before its file is rotated.
    pub log_size: Option<u64>,
    /// Bytes of output that ExecSync returns of each stream.
    pub exec_output_limit: usize,
    /// Bytes that the outputs of all commands may take together.
    pub exec_output_memory: usize,
    /// Maximum size of a response in bytes.
    pub message_limit: usize,
    /// Whether containers are restored from checkpoint images.
    pub restore_images: bool,
    /// Whether containers and pods may be restored from archives that clients name by path.
    pub restore_archives: bool,
    /// Settings of the OCI specification.
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
