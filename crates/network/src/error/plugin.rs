//! Errors of a plugin, whether it is a program or runs in process.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use super::kind::ErrorKind;
use super::native::NativeError;
use crate::cni::{ResultError, Verb};

/// A failure of a plugin at a command for a network.
#[derive(Debug, thiserror::Error)]
#[error("network {network:?}: plugin {plugin} failed at {verb}: {failure}")]
pub struct PluginError {
    /// The network.
    pub network: String,
    /// The plugin's type.
    pub plugin: String,
    /// The command.
    pub verb: Verb,
    /// The failure.
    #[source]
    pub failure: PluginFailure,
}

impl PluginError {
    /// Returns the kind of the failure.
    pub fn kind(&self) -> ErrorKind {
        match &self.failure {
            PluginFailure::TimedOut(_) => ErrorKind::Timeout,
            // "Try again later" in the CNI specification's list of codes.
            PluginFailure::Reported { code: 11, .. } => ErrorKind::TryAgain,
            PluginFailure::Native(error) => error.kind(),
            _ => ErrorKind::Plugin,
        }
    }
}

/// The ways in which a plugin can fail.
#[derive(Debug, thiserror::Error)]
pub enum PluginFailure {
    /// The plugin's program does not exist.
    #[error(
        "no such program in {}; install it or correct the plugin's type",
        dirs(searched)
    )]
    Missing {
        /// The searched directories.
        searched: Vec<PathBuf>,
    },
    /// The program cannot be started.
    #[error("cannot start {}", path.display())]
    Start {
        /// The program.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The exchange with the program failed.
    #[error("cannot communicate with the program")]
    Talk(#[source] io::Error),
    /// The program exceeded its timeout and was killed.
    #[error("timed out after {0:?} and was killed")]
    TimedOut(Duration),
    /// The program failed and reported an error, as the specification requires.
    #[error("{msg}{}{} (code {code})", if details.is_empty() { "" } else { ": " }, details)]
    Reported {
        /// The specification's code.
        code: u64,
        /// Short message.
        msg: String,
        /// Longer message.
        details: String,
    },
    /// The program failed without an error in the form of the specification.
    #[error("{status}{}{}", if stderr.is_empty() { " without output" } else { ": " }, stderr)]
    Died {
        /// The exit status.
        status: String,
        /// The last part of its output on stderr or stdout.
        stderr: String,
    },
    /// The program's output cannot be parsed.
    #[error("its output is malformed ({problem}): {output:?}")]
    Garbage {
        /// The problem with the output.
        problem: String,
        /// The beginning of the output.
        output: String,
    },
    /// The result has no address for the pod.
    #[error("its result contains no IP address for the pod")]
    NoAddress,
    /// A plugin that runs in process failed.
    #[error(transparent)]
    Native(#[from] NativeError),
}

impl PluginFailure {
    /// Reports whether the plugin did not run at all, or refused its configuration. It would also refuse to undo its
    /// part, and it has nothing to undo.
    pub(crate) fn is_before_anything_was_done(&self) -> bool {
        match self {
            Self::Missing { .. } | Self::Start { .. } => true,
            Self::Native(error) => error.kind() == ErrorKind::Invalid,
            _ => false,
        }
    }

    /// Builds the failure for a result of the whole chain that cannot be used.
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
