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

/// A failure of a pod's network.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This node has no usable network.
    #[error("the node's network is not ready: {message}")]
    NotReady {
        /// A single word for machines, as in a node condition's reason.
        reason: &'static str,
        /// The missing thing and the searched path.
        message: String,
    },
    /// A plugin failed.
    #[error(transparent)]
    Plugin(#[from] Box<PluginError>),
    /// The request is invalid.
    #[error("cannot attach the pod to a network: {0}")]
    Invalid(String),
    /// A name is not allowed.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// Another pod uses the host port.
    #[error(
        "host port {port} is already used by pod {holder}; remove that pod or use another port"
    )]
    HostPortInUse {
        /// The port with protocol and, if any, address: `127.0.0.1:80/tcp`.
        port: String,
        /// The name and ID of the pod that holds it.
        holder: String,
    },
    /// The pod is already attached with other settings.
    #[error("pod {id} is already attached with different settings; detach it first")]
    Mismatch {
        /// The pod's ID.
        id: String,
    },
    /// A network namespace could not be created, entered or removed.
    #[error("cannot {action} network namespace {}", path.display())]
    Netns {
        /// The attempted action.
        action: &'static str,
        /// The namespace.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A file of this crate could not be read or written.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// The attempted action.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A pod CIDR from the control plane cannot be used.
    #[error("cannot use the pod CIDR {value:?}: {problem}")]
    PodCidr {
        /// The received value.
        value: String,
        /// The problem with the value.
        problem: String,
    },
    /// Another garbage collection runs.
    #[error("a garbage collection is already running; try again later")]
    Collecting,
    /// The limit of operations that wait for plugins is reached.
    #[error(transparent)]
    Refused(#[from] orlop_pool::Refused),
    /// The worker of an operation ended early (the daemon is stopping).
    #[error("the network operation was interrupted, because the daemon is stopping")]
    Interrupted,
}

impl Error {
    /// Returns the kind of the failure.
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

    /// Returns the message with those of its causes, on a single line.
    pub fn with_causes(&self) -> String {
        orlop_text::with_causes(self)
    }
}
