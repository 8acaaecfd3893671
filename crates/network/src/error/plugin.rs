//! Errors of a plugin, whether it is a program or built in.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use super::kind::ErrorKind;
use super::native::NativeError;
use crate::cni::{ResultError, Verb};

/// A plugin that failed at a verb for a network.
#[derive(Debug, thiserror::Error)]
#[error("network {network:?}: plugin {plugin} failed at {verb}: {failure}")]
pub struct PluginError {
    /// The network.
    pub network: String,
    /// The plugin's type.
    pub plugin: String,
    /// What it was to do.
    pub verb: Verb,
    /// How it failed.
    #[source]
    pub failure: PluginFailure,
}

impl PluginError {
    /// What kind of failure it is.
    pub fn kind(&self) -> ErrorKind {
        match &self.failure {
            PluginFailure::TimedOut(_) => ErrorKind::Timeout,
            // "Try again later" of the CNI specification's list of codes.
            PluginFailure::Reported { code: 11, .. } => ErrorKind::TryAgain,
            PluginFailure::Native(error) => error.kind(),
            _ => ErrorKind::Plugin,
        }
    }
}

/// How a plugin failed.
#[derive(Debug, thiserror::Error)]
pub enum PluginFailure {
    /// There is no such program.
    #[error(
        "no such program in {}; install it or correct the plugin's type",
        dirs(searched)
    )]
    Missing {
        /// The directories looked in.
        searched: Vec<PathBuf>,
    },
    /// The program cannot be started.
    #[error("cannot start {}", path.display())]
    Start {
        /// The program.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// Talking to the program failed.
    #[error("cannot communicate with the program")]
    Talk(#[source] io::Error),
    /// It did not end in time and was killed.
    #[error("timed out after {0:?} and was killed")]
    TimedOut(Duration),
    /// It failed and said why, as the specification asks.
    #[error("{msg}{}{} (code {code})", if details.is_empty() { "" } else { ": " }, details)]
    Reported {
        /// The specification's code.
        code: u64,
        /// Short message.
        msg: String,
        /// Longer message.
        details: String,
    },
    /// It failed without saying why in the form the specification asks for.
    #[error("{status}{}{}", if stderr.is_empty() { " without output" } else { ": " }, stderr)]
    Died {
        /// How it ended.
        status: String,
        /// The end of what it wrote to stderr or stdout.
        stderr: String,
    },
    /// What it printed cannot be understood.
    #[error("its output is malformed ({problem}): {output:?}")]
    Garbage {
        /// What is wrong.
        problem: String,
        /// The beginning of the output.
        output: String,
    },
    /// Its result holds no address for the pod.
    #[error("its result contains no IP address for the pod")]
    NoAddress,
    /// A plugin done in process failed.
    #[error(transparent)]
    Native(#[from] NativeError),
}

impl PluginFailure {
    /// Whether the plugin was not run at all, or refused its configuration: it
    /// will refuse it again when it is to undo its part, which is none.
    pub(crate) fn is_before_anything_was_done(&self) -> bool {
        match self {
            Self::Missing { .. } | Self::Start { .. } => true,
            Self::Native(error) => error.kind() == ErrorKind::Invalid,
            _ => false,
        }
    }

    /// A result of the whole chain that cannot be used.
    pub(crate) fn from_result(error: &ResultError, shown: &Value) -> Self {
        Self::Garbage {
            problem: orlop_text::with_causes(error),
            output: shown.to_string().chars().take(256).collect(),
        }
    }
}

fn dirs(searched: &[PathBuf]) -> String {
    let names: Vec<_> = searched
        .iter()
        .map(|dir| dir.display().to_string())
        .collect();
    if names.is_empty() {
        "any plugin directory".to_owned()
    } else {
        names.join(", ")
    }
}
