//! How a container is made.

use std::path::PathBuf;

use super::console::Console;

/// How a container is made.
#[derive(Debug, Default)]
pub(crate) struct Options {
    pub(crate) pid_file: Option<PathBuf>,
    pub(crate) pidfd_socket: Option<PathBuf>,
    pub(crate) console: Console,
    pub(crate) preserve_fds: u32,
    pub(crate) no_pivot: bool,
    pub(crate) no_new_keyring: bool,
    /// Whether this process ends once the other is made.
    pub(crate) leaves: bool,
}
