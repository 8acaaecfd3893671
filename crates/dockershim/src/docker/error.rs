//! Why a call of the engine failed.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// The outcome of a call of the engine.
pub(crate) type Result<T> = std::result::Result<T, DockerError>;

/// Why a call of the engine failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DockerError {
    /// Nobody listens on the socket.
    #[error(
        "cannot reach the Docker Engine at {}; check that it runs and that docker.endpoint is its socket",
        endpoint.display()
    )]
    Unreachable {
        endpoint: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The engine said no; the message is its own.
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
    /// An answer that is not what the API says.
    #[error("cannot parse the Docker Engine's response ({doing}): {problem}")]
    Unreadable { doing: String, problem: String },
    /// There is no version of the API that both sides speak.
    #[error("{0}")]
    Version(String),
}

impl DockerError {
    /// No such container, image or exec. An image that goes at this moment is called otherwise.
    pub(crate) fn is_not_found(&self) -> bool {
        match self {
            Self::Refused { status: 404, .. } => true,
            Self::Refused { message, .. } => message.starts_with("unrecognized image ID"),
            _ => false,
        }
    }

    /// The object is not in the state for it, or its name is taken.
    pub(crate) fn is_conflict(&self) -> bool {
        matches!(self, Self::Refused { status: 409, .. })
    }

    /// The engine does not answer, as opposed to saying no.
    pub(crate) fn is_absence(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. } | Self::Timeout { .. } | Self::Broken { .. }
        )
    }
}
