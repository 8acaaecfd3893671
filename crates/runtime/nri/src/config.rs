//! Configuration of NRI.

use std::path::PathBuf;
use std::time::Duration;

use crate::validator::Validator;

/// Settings for the discovery and treatment of plugins.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Name and version of the runtime, which plugins receive.
    pub runtime: (String, String),
    /// Socket for plugins that others start.
    pub listen: Listen,
    /// Directory of programs to start as plugins, named `NN-name`.
    pub plugin_dir: PathBuf,
    /// Directory of the plugins' configuration: `NN-name.conf` or `name.conf`.
    pub plugin_config_dir: PathBuf,
    /// Time limit for a plugin to register, and to process the node's state.
    pub registration_timeout: Duration,
    /// Time limit for a plugin to answer a request.
    pub request_timeout: Duration,
    /// Rules that restrict what plugins may do.
    pub validator: Option<Validator>,
}

impl Config {
    /// Whether two configurations differ at most in the validator's rules.
    pub(crate) fn is_but_for_rules(&self, other: &Self) -> bool {
        let mut other = other.clone();
        other.validator.clone_from(&self.validator);
        *self == other
    }
}

/// Whether plugins can connect to a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// Path of the socket, which only root can access.
    At(PathBuf),
    /// Only plugins that the runtime starts are accepted.
    Never,
}
