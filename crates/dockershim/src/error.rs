//! What can go wrong, and the one place where it becomes a gRPC status.

use std::error::Error as StdError;
use std::io;
use std::sync::Arc;

use tonic::{Code, Status};

use crate::docker::DockerError;

/// Errors are shared, because several callers may have waited for one operation.
pub type Result<T, E = Arc<Error>> = std::result::Result<T, E>;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No pod, container or image by that name.
    #[error("{what} {id:?} not found")]
    NotFound {
        /// "pod sandbox", "container" …
        what: &'static str,
        /// What the caller asked for.
        id: String,
    },
    /// The request itself is wrong.
    #[error("{field}: {problem}")]
    Invalid {
        /// The field's path in the request.
        field: String,
        /// What is wrong with it and what would be right.
        problem: String,
    },
    /// Not in the present state.
    #[error("{0}")]
    Precondition(String),
    /// It took longer than the caller or we allow.
    #[error("{0}")]
    Timeout(String),
    /// The engine cannot do it; the reason is in the message.
    #[error("{0}")]
    Unimplemented(String),
    /// A limit of this node is reached.
    #[error("{0}")]
    Exhausted(String),
    /// The node, not the caller, has a problem.
    #[error("{0}")]
    Internal(String),
    /// A system call failed.
    #[error("{doing}")]
    Io {
        /// What was being done to what.
        doing: String,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// The engine refused or is away.
    #[error("{doing}")]
    Engine {
        /// What was being done to what.
        doing: String,
        /// The engine's answer.
        #[source]
        source: EngineError,
    },
    /// An image could not be pulled.
    #[error("pulling image {image:?}: {problem}")]
    Pull {
        /// The image.
        image: String,
        /// The engine's words.
        problem: String,
    },
    /// The pod's network could not be made or undone.
    #[error("{doing}")]
    Network {
        /// What was being done to what.
        doing: String,
        /// The library's answer.
        #[source]
        source: orlop_network::Error,
    },
    /// Several things went wrong on the way to the end of one.
    #[error("{}", all.iter().map(|error| chain(&**error)).collect::<Vec<_>>().join("; "))]
    Several {
        /// Each of them.
        all: Vec<Arc<Error>>,
    },
}

/// What the engine answered, or that it did not.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct EngineError(#[from] DockerError);

impl EngineError {
    pub(crate) fn inner(&self) -> &DockerError {
        &self.0
    }
}

impl Error {
    /// A wrong field of the request.
    pub(crate) fn invalid(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Invalid {
            field: field.into(),
            problem: problem.into(),
        }
    }

    /// For `map_err` on system calls: says what was being done.
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Io { doing, source }
    }

    /// For `map_err` on calls of the engine: says what was being done.
    pub(crate) fn engine(doing: impl Into<String>) -> impl FnOnce(DockerError) -> Self {
        let doing = doing.into();
        move |source| Self::Engine {
            doing,
            source: source.into(),
        }
    }

    /// Whether the engine does not answer, as opposed to saying no.
    pub(crate) fn is_absence(&self) -> bool {
        matches!(self, Self::Engine { source, .. } if source.inner().is_absence())
    }

    /// Whether the engine says that there is no such thing.
    pub(crate) fn is_not_found(&self) -> bool {
        match self {
            Self::NotFound { .. } => true,
            Self::Engine { source, .. } => source.inner().is_not_found(),
            _ => false,
        }
    }
}

/// All went well, or everything that did not.
pub(crate) fn gathered(mut errors: Vec<Arc<Error>>) -> Result<()> {
    match errors.len() {
        0 => Ok(()),
        1 => Err(errors.remove(0)),
        _ => Err(Error::Several { all: errors }.into()),
    }
}

/// The answer that a caller gets.
pub(crate) fn status(error: &Error) -> Status {
    let message = chain(error);
    match error {
        // The kubelet knows this kind of failure by the beginning of its message, and strips no
        // other code than this off the message before it looks.
        Error::Pull { problem, .. } if registry_is_away(problem) => {
            Status::unknown(format!("RegistryUnavailable: {message}"))
        }
        _ => Status::new(code(error), message),
    }
}

fn code(error: &Error) -> Code {
    match error {
        Error::NotFound { .. } => Code::NotFound,
        Error::Invalid { .. } => Code::InvalidArgument,
        Error::Precondition(_) => Code::FailedPrecondition,
        Error::Timeout(_) => Code::DeadlineExceeded,
        Error::Unimplemented(_) => Code::Unimplemented,
        Error::Exhausted(_) => Code::ResourceExhausted,
        Error::Internal(_) => Code::Internal,
        Error::Io { source, .. } => match source.kind() {
            io::ErrorKind::StorageFull => Code::ResourceExhausted,
            _ => Code::Internal,
        },
        Error::Network { .. } => Code::Unknown,
        Error::Engine { source, .. } => engine_code(source.inner()),
        Error::Pull { problem, .. } => pull_code(problem),
        Error::Several { all } => all.first().map_or(Code::Unknown, |error| code(error)),
    }
}

fn engine_code(error: &DockerError) -> Code {
    match error {
        DockerError::Unreachable { .. } | DockerError::Broken { .. } => Code::Unavailable,
        DockerError::Timeout { .. } => Code::DeadlineExceeded,
        DockerError::Version(_) => Code::FailedPrecondition,
        DockerError::Unreadable { .. } => Code::Internal,
        DockerError::Refused { status, message } => match status {
            _ if message.contains("no space left on device") => Code::ResourceExhausted,
            400 => Code::InvalidArgument,
            404 => Code::NotFound,
            409 => Code::FailedPrecondition,
            501 => Code::Unimplemented,
            503 => Code::Unavailable,
            _ => Code::Unknown,
        },
    }
}

/// The engine hands on what registries said, as text.
fn registry_is_away(problem: &str) -> bool {
    [
        "received unexpected HTTP status: 502",
        "received unexpected HTTP status: 503",
        "received unexpected HTTP status: 504",
    ]
    .iter()
    .any(|sign| problem.contains(sign))
}

fn pull_code(problem: &str) -> Code {
    let lower = problem.to_lowercase();
    let says = |signs: &[&str]| signs.iter().any(|sign| lower.contains(sign));
    if says(&["no space left on device"]) {
        Code::ResourceExhausted
    } else if says(&["unauthorized", "no basic auth", "incorrect username"]) {
        Code::Unauthenticated
    } else if says(&["access denied", "access to the resource is denied"]) {
        Code::PermissionDenied
    } else if says(&[
        "not found",
        "manifest unknown",
        "does not exist",
        "no such image",
    ]) {
        Code::NotFound
    } else if says(&["invalid reference format"]) {
        Code::InvalidArgument
    } else if says(&["brought nothing for"]) {
        Code::DeadlineExceeded
    } else {
        Code::Unknown
    }
}

/// The whole chain of causes on one line, without what a cause repeats.
pub fn chain(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.ends_with(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kubelet_recognises_a_registry_that_is_away() {
        let pull = |problem: &str| {
            status(&Error::Pull {
                image: "a/b:1".into(),
                problem: problem.into(),
            })
        };
        let away = pull("received unexpected HTTP status: 503 Service Unavailable");
        assert!(
            away.message().starts_with("RegistryUnavailable: "),
            "{away}"
        );
        assert_eq!(away.code(), Code::Unknown);
        assert_eq!(pull("manifest unknown").code(), Code::NotFound);
        assert_eq!(
            pull("unauthorized: incorrect username").code(),
            Code::Unauthenticated
        );
    }

    #[test]
    fn an_engine_that_is_away_is_said_to_be() {
        let error = Error::engine("listing containers")(DockerError::Unreachable {
            endpoint: "/run/docker.sock".into(),
            source: io::ErrorKind::NotFound.into(),
        });
        let status = status(&error);
        assert_eq!(status.code(), Code::Unavailable);
        for word in ["listing containers", "/run/docker.sock", "is it running"] {
            assert!(status.message().contains(word), "{status}");
        }
    }
}
