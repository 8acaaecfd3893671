//! What the interface must be told.

use std::path::PathBuf;
use std::time::Duration;

use crate::validator::Validator;

/// Everything that decides how plugins are found and treated.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The runtime's name and version, as plugins are told them.
    pub runtime: (String, String),
    /// Where plugins connect that somebody else starts.
    pub listen: Listen,
    /// Programs that are started as plugins, named `NN-name`.
    pub plugin_dir: PathBuf,
    /// Their configuration: `NN-name.conf` or `name.conf`.
    pub plugin_config_dir: PathBuf,
    /// How long a plugin may take to register, and to take the node's state in.
    pub registration_timeout: Duration,
    /// How long it may take for an answer.
    pub request_timeout: Duration,
    /// What no plugin may do.
    pub validator: Option<Validator>,
}

impl Config {
    /// Whether another one differs in nothing but what plugins may do.
    pub(crate) fn is_but_for_rules(&self, other: &Self) -> bool {
        let mut other = other.clone();
        other.validator.clone_from(&self.validator);
        *self == other
    }
}

/// Whether there is a socket for plugins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// Here, for root alone.
    At(PathBuf),
    /// Only plugins that the runtime starts are taken.
    Never,
}
