//! Errors of calls to the engine.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// The result of a call to the engine.
pub(crate) type Result<T> = std::result::Result<T, DockerError>;

/// An error of a call to the engine.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DockerError {
    /// No process listens on the socket.
    #[error(
        "cannot reach the Docker Engine at {}; check that it runs and that docker.endpoint is its socket",
        endpoint.display()
    )]
    Unreachable {
        endpoint: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The engine rejected the call; the message is the engine's.
    #[error("{message}")]
    Refused { status: u16, message: String },
    /// The engine did not answer in time.
    #[error("the Docker Engine did not answer within {after:?} ({doing})")]
    Timeout { doing: String, after: Duration },
    /// The connection broke in the middle.
    #[error("the connection to the Docker Engine broke ({doing})")]
    Broken {
        doing: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The response does not match the API.
    #[error("cannot parse the Docker Engine's response ({doing}): {problem}")]
    Unreadable { doing: String, problem: String },
    /// No API version is supported by both sides.
    #[error("{0}")]
    Version(String),
}

impl DockerError {
    /// Whether the container, image or exec does not exist. An image that is being removed gives another error.
    pub(crate) fn is_not_found(&self) -> bool {
        match self {
            Self::Refused { status: 404, .. } => true,
            Self::Refused { message, .. } => message.starts_with("unrecognized image ID"),
            _ => false,
        }
    }

    /// Whether the object is in the wrong state or its name is taken.
    pub(crate) fn is_conflict(&self) -> bool {
        matches!(self, Self::Refused { status: 409, .. })
    }

    /// Whether the engine does not respond, as opposed to rejecting the call.
    pub(crate) fn is_absence(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. } | Self::Timeout { .. } | Self::Broken { .. }
        )
    }
}
