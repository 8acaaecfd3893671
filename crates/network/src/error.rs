//! What can go wrong, for people and for code.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::attachment::InvalidName;
use crate::cni::Verb;
use crate::native::NativeError;

/// Something went wrong with a pod's network.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no usable network on this node.
    #[error("the node's network is not ready: {message}")]
    NotReady {
        /// One word for machines, as in a node condition's reason.
        reason: &'static str,
        /// What is missing and where it was looked for.
        message: String,
    },
    /// A plugin failed.
    #[error(transparent)]
    Plugin(#[from] Box<PluginError>),
    /// The request itself is wrong.
    #[error("cannot attach the pod to a network: {0}")]
    Invalid(String),
    /// A name is not allowed.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// A port of the node is taken by another pod.
    #[error(
        "host port {port} is already used by pod {holder}; remove that pod or use another port"
    )]
    HostPortInUse {
        /// The port with protocol and, if any, address: `127.0.0.1:80/tcp`.
        port: String,
        /// The pod that holds it: its name and identity.
        holder: String,
    },
    /// The pod is attached already, with other settings.
    #[error("pod {id} is already attached with different settings; detach it first")]
    Mismatch {
        /// The pod's identity.
        id: String,
    },
    /// A network namespace could not be made, entered or removed.
    #[error("cannot {action} network namespace {}", path.display())]
    Netns {
        /// What was being done.
        action: &'static str,
        /// The namespace.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A file of this crate's could not be read or written.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was being done.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A pod CIDR from the control plane cannot be used.
    #[error("cannot use the pod CIDR {value:?}: {problem}")]
    PodCidr {
        /// As received.
        value: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Somebody else collects garbage all the time.
    #[error("a garbage collection is already running; try again later")]
    Collecting,
    /// More operations wait for plugins than may.
    #[error(transparent)]
    Refused(#[from] orlop_pool::Refused),
    /// The worker of an operation went away (the daemon is stopping).
    #[error("the network operation was interrupted, because the daemon is stopping")]
    Interrupted,
}

/// What kind of failure it is; decides the answer's code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// No usable network yet; wait for the configuration.
    NotReady,
    /// The request cannot be honoured as it is.
    Invalid,
    /// Something else holds what is asked for.
    Conflict,
    /// No address is left.
    Exhausted,
    /// A plugin took too long.
    Timeout,
    /// The plugin says: later.
    TryAgain,
    /// A plugin failed in its own way.
    Plugin,
    /// The system failed.
    Internal,
}

impl Error {
    /// What kind of failure it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotReady { .. } => ErrorKind::NotReady,
            Self::Plugin(plugin) => plugin.kind(),
            Self::Invalid(_) | Self::Name(_) | Self::PodCidr { .. } => ErrorKind::Invalid,
            Self::HostPortInUse { .. } | Self::Mismatch { .. } => ErrorKind::Conflict,
            Self::Collecting | Self::Refused(orlop_pool::Refused::Full { .. }) => {
                ErrorKind::TryAgain
            }
            Self::Refused(_) | Self::Netns { .. } | Self::Io { .. } | Self::Interrupted => {
                ErrorKind::Internal
            }
        }
    }

    /// The message with those of its causes, for a single line.
    pub fn with_causes(&self) -> String {
        orlop_text::with_causes(self)
    }
}

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
