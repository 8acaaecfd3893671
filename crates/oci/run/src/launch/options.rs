//! Options for creating a container.

use std::path::PathBuf;

use super::console::Console;

/// Options for creating a container.
#[derive(Debug, Default)]
pub(crate) struct Options {
    pub(crate) pid_file: Option<PathBuf>,
    pub(crate) pidfd_socket: Option<PathBuf>,
    pub(crate) console: Console,
    pub(crate) preserve_fds: u32,
    pub(crate) no_pivot: bool,
    pub(crate) no_new_keyring: bool,
    /// Whether this process exits after the container is created.
    pub(crate) leaves: bool,
}
