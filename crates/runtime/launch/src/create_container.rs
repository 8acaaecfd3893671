//! Parameters of container creation.

use std::path::PathBuf;

use orlop_keeper_protocol::LogPolicy;

/// The size of a terminal, in characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TerminalSize {
    /// Width in columns.
    pub columns: u16,
    /// Height in rows.
    pub rows: u16,
}

/// Parameters to create a container from a bundle.
#[derive(Clone, Debug, Default)]
pub struct CreateContainer {
    /// ID of the container, also for the runtime.
    pub id: String,
    /// Directory of the bundle with `config.json`. The keeper also writes the process ID and runtime logs there.
    pub bundle: PathBuf,
    /// Path of the container's log in the CRI format; `None` drops its output.
    pub log_path: Option<PathBuf>,
    /// Log directory of the pod, above `log_path`; no symlinks are followed below it. Defaults to the log's own
    /// directory.
    pub log_dir: Option<PathBuf>,
    /// Treatment of output that the log cannot take in time.
    pub log_policy: LogPolicy,
    /// Longest line of the log, in bytes of content; 16 KiB if not set.
    pub log_line_max: Option<u32>,
    /// Limit of log bytes per second, beyond which output is dropped; unlimited if not set.
    pub log_rate: Option<u32>,
    /// Size limit of one log file in bytes, beyond which output is dropped until the log is reopened; unlimited if not
    /// set.
    pub log_size: Option<u64>,
    /// Whether `config.json` sets `terminal`.
    pub tty: bool,
    /// Initial size of the terminal.
    pub terminal_size: Option<TerminalSize>,
    /// Whether the container's standard input stays open for attachments.
    pub stdin: bool,
    /// Whether standard input closes with the first attachment to it.
    pub stdin_once: bool,
    /// The container's cgroup directory (cgroup v1: of the memory controller), which the keeper watches for OOM kills.
    pub oom_cgroup: Option<PathBuf>,
    /// Whether to start the container right after its creation, if the start only needs to release the waiting process.
    pub starts: bool,
    /// Whether it has a user namespace, for which the mounts must be attached at their paths.
    pub own_users: bool,
    /// The checkpoint to restore; `None` for a new container.
    pub restore: Option<Restore>,
}

impl CreateContainer {
    /// The runtime command that creates the container.
    pub(crate) fn action(&self) -> &'static str {
        match self.restore {
            Some(_) => "restore",
            None => "create",
        }
    }
}

/// Parameters to restore a container from a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restore {
    /// Directory of the checkpoint images.
    pub image_path: PathBuf,
    /// Directory of the log files.
    pub work_path: PathBuf,
    /// Whether the checkpoint includes open TCP connections.
    pub tcp_established: bool,
    /// Whether the checkpoint includes file locks.
    pub file_locks: bool,
}
