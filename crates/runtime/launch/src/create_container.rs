//! What a container is made with.

use std::path::PathBuf;

use orlop_keeper_protocol::LogPolicy;

/// The size of a terminal, in characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TerminalSize {
    /// The width.
    pub columns: u16,
    /// The height.
    pub rows: u16,
}

/// A container to be made from a bundle.
#[derive(Clone, Debug, Default)]
pub struct CreateContainer {
    /// The container's identity, for the runtime too.
    pub id: String,
    /// The bundle: the directory with `config.json`. Process id and runtime logs are written
    /// there too.
    pub bundle: PathBuf,
    /// The container's log in the CRI format; `None` drops its output.
    pub log_path: Option<PathBuf>,
    /// The directory that was chosen for the pod's logs, above that: beneath it no link is
    /// followed. The log's own if not set.
    pub log_dir: Option<PathBuf>,
    /// What happens to output that the log cannot take in time.
    pub log_policy: LogPolicy,
    /// The longest line of the log, in bytes of content; 16 KiB if not set.
    pub log_line_max: Option<u32>,
    /// The most bytes of log in a second, beyond which output is dropped; any number if not set.
    pub log_rate: Option<u32>,
    /// The most bytes of one file of the log, beyond which output is dropped until it is opened anew;
    /// any number if not set.
    pub log_size: Option<u64>,
    /// Whether `config.json` says `terminal`.
    pub tty: bool,
    /// The terminal's size at first.
    pub terminal_size: Option<TerminalSize>,
    /// Whether the container's standard input is open, for attachments to write to.
    pub stdin: bool,
    /// Whether standard input closes with the end of the first attachment to it.
    pub stdin_once: bool,
    /// The container's cgroup directory, of the memory controller for v1, in which the keeper
    /// watches for OOM kills.
    pub oom_cgroup: Option<PathBuf>,
    /// Whether it is to be started as soon as it is made, where that takes no more than letting it go.
    pub starts: bool,
    /// Whether it has users of its own, who have mounts put in their places for them.
    pub own_users: bool,
    /// What it goes on from; `None` for a container that begins.
    pub restore: Option<Restore>,
}

impl CreateContainer {
    /// The runtime's command by which it comes to life.
    pub(crate) fn action(&self) -> &'static str {
        match self.restore {
            Some(_) => "restore",
            None => "create",
        }
    }
}

/// What a runtime needs to let a container go on where it was written out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restore {
    /// Where the images are.
    pub image_path: PathBuf,
    /// Where the logs go.
    pub work_path: PathBuf,
    /// Whether open TCP connections were kept.
    pub tcp_established: bool,
    /// Whether file locks were kept.
    pub file_locks: bool,
}
