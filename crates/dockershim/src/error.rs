//! Errors of the crate.

use std::sync::Arc;

use orlop_cri_server::fault::Fault;
pub use orlop_cri_server::fault::chain;
use tonic::Code;

use crate::docker::DockerError;

/// A result with a shared error: several callers may wait for one operation.
pub type Result<T, E = Arc<Error>> = std::result::Result<T, E>;

orlop_cri_server::backend_error! {
    /// The engine rejected the call or is not reachable.
    #[error("{doing}")]
    Engine {
        /// The operation and its object.
        doing: String,
        /// The engine's error.
        #[source]
        source: EngineError,
    },
    /// An image could not be pulled.
    #[error("pulling image {image:?}: {problem}")]
    Pull {
        /// The image.
        image: String,
        /// The engine's message.
        problem: String,
    },
    /// An image is not allowed, or its policy data is not available.
    #[error("{doing}")]
    Image {
        /// The operation and the image.
        doing: String,
        /// The error of the image store.
        #[source]
        source: orlop_image_store::Error,
    },
    /// Several steps of a cleanup failed.
    #[error("{}", all.iter().map(|error| chain(&**error)).collect::<Vec<_>>().join("; "))]
    Several {
        /// The error of each step.
        all: Vec<Arc<Error>>,
    },
}

/// An error of a call to the engine.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct EngineError(#[from] DockerError);

impl EngineError {
    pub(crate) fn inner(&self) -> &DockerError {
        &self.0
    }
}

impl Error {
    /// Returns a function for `map_err` that adds the operation to an engine error.
    pub(crate) fn engine(doing: impl Into<String>) -> impl FnOnce(DockerError) -> Self {
        let doing = doing.into();
        move |source| Self::Engine {
            doing,
            source: source.into(),
        }
    }

    /// Returns a function for `map_err` that adds the operation to an image store error.
    pub(crate) fn image(doing: impl Into<String>) -> impl FnOnce(orlop_image_store::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Image { doing, source }
    }

    /// Returns the engine's error, if this is one.
    pub(crate) fn of_engine(&self) -> Option<&DockerError> {
        match self {
            Self::Engine { source, .. } => Some(source.inner()),
            _ => None,
        }
    }

    /// Whether the engine does not respond, as opposed to rejecting the call.
    pub(crate) fn is_absence(&self) -> bool {
        self.of_engine().is_some_and(DockerError::is_absence)
    }

    /// Whether the engine reports that the object does not exist.
    pub(crate) fn is_not_found(&self) -> bool {
        match self {
            Self::NotFound { .. } => true,
            Self::Engine { source, .. } => source.inner().is_not_found(),
            _ => false,
        }
    }
}

/// Combines errors into one result; no errors is a success.
pub(crate) fn gathered(mut errors: Vec<Arc<Error>>) -> Result<()> {
    match errors.len() {
        0 => Ok(()),
        1 => Err(errors.remove(0)),
        _ => Err(Error::Several { all: errors }.into()),
    }
}

impl Fault for Error {
    fn code(&self) -> Code {
        match self {
            Self::Engine { source, .. } => engine_code(source.inner()),
            Self::Pull { problem, .. } => pull_code(problem),
            Self::Image { source, .. } => image_code(source),
            Self::Several { all } => all.first().map_or(Code::Unknown, |error| error.code()),
            common => common.common_code().unwrap_or(Code::Unknown),
        }
    }

    fn known_word(&self) -> Option<&'static str> {
        match self {
            Self::Pull { problem, .. } if registry_is_away(problem) => Some("RegistryUnavailable"),
            Self::Image { source, .. } => source.first_word(),
            _ => None,
        }
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

/// Whether a message says that the registry is unreachable. The engine forwards registry errors as text.
fn registry_is_away(problem: &str) -> bool {
    [
        "received unexpected HTTP status: 502",
        "received unexpected HTTP status: 503",
        "received unexpected HTTP status: 504",
    ]
    .iter()
    .any(|sign| problem.contains(sign))
}

fn image_code(error: &orlop_image_store::Error) -> Code {
    use orlop_image_store::Error as E;
    match error {
        E::Searched { last, .. } => image_code(last),
        E::InvalidReference { .. } | E::ShortName { .. } => Code::InvalidArgument,
        E::NotInRegistry { .. } => Code::NotFound,
        E::Unauthenticated { .. } => Code::Unauthenticated,
        E::PermissionDenied { .. } | E::Blocked { .. } => Code::PermissionDenied,
        E::DiskFull { .. } | E::TooLarge { .. } => Code::ResourceExhausted,
        E::DigestMismatch { .. } => Code::DataLoss,
        E::Unsupported(_) | E::InvalidImage { .. } | E::Configuration { .. } => {
            Code::FailedPrecondition
        }
        _ => Code::Unknown,
    }
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
    } else if says(&["sent no data for"]) {
        Code::DeadlineExceeded
    } else {
        Code::Unknown
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use orlop_cri_server::fault::status;

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
        for word in [
            "listing containers",
            "/run/docker.sock",
            "check that it runs",
        ] {
            assert!(status.message().contains(word), "{status}");
        }
    }
}
