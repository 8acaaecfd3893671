//! The purpose of a call of the OCI runtime.

use std::path::PathBuf;

use rustix::termios::Winsize;

/// The purpose of a call.
#[derive(Debug)]
pub(crate) enum Purpose {
    /// Create a container.
    Create(Making),
    /// Start the container with this key.
    Start(u64),
    /// Signal a container.
    Kill,
    /// Delete the container with this ID.
    Delete(String),
    /// Run a command.
    Exec(Running),
}

/// A container that is being created.
#[derive(Debug)]
pub(crate) struct Making {
    pub(crate) container: u64,
    pub(crate) pid_file: PathBuf,
    pub(crate) size: Winsize,
    pub(crate) running: bool,
    /// The fifo that releases its process at once; empty if it waits for a start.
    pub(crate) fifo: PathBuf,
    /// Whether the runtime puts the mounts in place.
    pub(crate) attaches: bool,
}

/// A command that is being started.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) exec: String,
    pub(crate) pid_file: PathBuf,
    pub(crate) tty: bool,
    pub(crate) size: Winsize,
}
