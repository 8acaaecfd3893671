//! Why an OCI runtime was called.

use std::path::PathBuf;

use rustix::termios::Winsize;

/// What a runtime was called for.
#[derive(Debug)]
pub(crate) enum Purpose {
    /// To make a container.
    Create(Making),
    /// To start the container of this key.
    Start(u64),
    /// To signal a container.
    Kill,
    /// To delete the container of this name.
    Delete(String),
    /// To run a command.
    Exec(Running),
}

/// A container being made.
#[derive(Debug)]
pub(crate) struct Making {
    pub(crate) container: u64,
    pub(crate) pid_file: PathBuf,
    pub(crate) size: Winsize,
    pub(crate) running: bool,
    /// Where it is let go; empty if it waits.
    pub(crate) fifo: PathBuf,
    /// Whether its runtime puts its mounts in their places.
    pub(crate) attaches: bool,
}

/// A command being started.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) exec: String,
    pub(crate) pid_file: PathBuf,
    pub(crate) tty: bool,
    pub(crate) size: Winsize,
}
