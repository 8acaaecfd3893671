//! The errors of this crate.

use std::io;
use std::path::PathBuf;

use crate::names::InvalidName;

mod kind;
mod native;
mod plugin;

pub use kind::ErrorKind;
pub use native::NativeError;
pub use plugin::{PluginError, PluginFailure};

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
