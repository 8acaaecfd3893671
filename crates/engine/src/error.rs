//! What can go wrong, and the one place where it becomes a gRPC status.

use std::error::Error as StdError;
use std::io;
use std::sync::Arc;

use tonic::{Code, Status};

use crate::spec::Error as SpecError;

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
    /// Something else has this identity.
    #[error("{0}")]
    Exists(String),
    /// Not in the present state.
    #[error("{0}")]
    Precondition(String),
    /// It took longer than the caller or we allow.
    #[error("{0}")]
    Timeout(String),
    /// Known, and not built.
    #[error("{0} is not implemented by this runtime")]
    Unimplemented(&'static str),
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
    /// An image could not be had.
    #[error("{doing}")]
    Image {
        /// What was being done to which image.
        doing: String,
        /// The library's answer.
        #[source]
        source: orlop_image::Error,
    },
    /// The configuration can't be made an OCI spec.
    #[error(transparent)]
    Spec(#[from] crate::spec::Error),
    /// The keeper or the low-level runtime refused.
    #[error("{doing}")]
    Launch {
        /// What was being done to what.
        doing: String,
        /// The library's answer.
        #[source]
        source: orlop_launch::Error,
    },
    /// Plugins of the node stand against it.
    #[error(transparent)]
    Plugins(#[from] orlop_nri::Error),
    /// The pod's network could not be made or undone.
    #[error("{doing}")]
    Network {
        /// What was being done to what.
        doing: String,
        /// The library's answer.
        #[source]
        source: orlop_network::Error,
    },
}

impl Error {
    /// A wrong field of the request.
    pub fn invalid(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Invalid {
            field: field.into(),
            problem: problem.into(),
        }
    }

    /// For `map_err` on system calls: says what was being done.
    pub fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Io { doing, source }
    }
}

/// The answer that a caller gets.
pub fn status(error: &Error) -> Status {
    let message = chain(error);
    match error {
        // The kubelet knows these failures by the beginnings of their messages, and strips no
        // other code than this off the message before it looks.
        Error::Image {
            source: orlop_image::Error::RegistryUnavailable { .. },
            ..
        } => Status::unknown(format!("RegistryUnavailable: {message}")),
        Error::Image {
            source: orlop_image::Error::NotAllowed { .. } | orlop_image::Error::Policy { .. },
            ..
        } => Status::unknown(format!("SignatureValidationFailed: {message}")),
        _ => Status::new(code(error), message),
    }
}

fn code(error: &Error) -> Code {
    match error {
        Error::NotFound { .. } => Code::NotFound,
        Error::Invalid { .. } => Code::InvalidArgument,
        Error::Exists(_) => Code::AlreadyExists,
        Error::Plugins(orlop_nri::Error::Plugin { .. })
        | Error::Launch { .. }
        | Error::Network { .. } => Code::Unknown,
        Error::Precondition(_) | Error::Plugins(_) => Code::FailedPrecondition,
        Error::Timeout(_) => Code::DeadlineExceeded,
        Error::Unimplemented(_) => Code::Unimplemented,
        Error::Exhausted(_) => Code::ResourceExhausted,
        Error::Internal(_) => Code::Internal,
        Error::Io { source, .. } => match source.kind() {
            io::ErrorKind::StorageFull => Code::ResourceExhausted,
            _ => Code::Internal,
        },
        Error::Image { source, .. } => image_code(source),
        Error::Spec(error) => spec_code(error),
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

fn spec_code(error: &SpecError) -> Code {
    match error {
        SpecError::InvalidArgument { .. } => Code::InvalidArgument,
        SpecError::NotFound { .. } => Code::NotFound,
        SpecError::FailedPrecondition { .. } | SpecError::RecursiveReadOnlyUnsupported { .. } => {
            Code::FailedPrecondition
        }
        SpecError::ImageVolume(error) => spec_code(error),
        SpecError::Io { .. } => Code::Internal,
    }
}

fn image_code(error: &orlop_image::Error) -> Code {
    use orlop_image::Error as E;
    match error {
        E::InvalidReference { .. } | E::Ambiguous(_) => Code::InvalidArgument,
        E::NotFound(_) | E::NotInRegistry { .. } => Code::NotFound,
        E::Unauthenticated { .. } => Code::Unauthenticated,
        E::PermissionDenied { .. } => Code::PermissionDenied,
        E::Busy(_) => Code::Unavailable,
        E::DiskFull { .. } | E::TooLarge { .. } | E::Crowded(_) => Code::ResourceExhausted,
        E::DigestMismatch { .. } => Code::DataLoss,
        E::Unsupported(_) | E::InvalidImage { .. } | E::Configuration { .. } => {
            Code::FailedPrecondition
        }
        E::Cancelled(_) => Code::Cancelled,
        _ => Code::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(source: orlop_image::Error) -> Status {
        let doing = "pulling image \"a.example/app:1\"".to_owned();
        status(&Error::Image { doing, source })
    }

    #[test]
    fn failures_of_images_have_the_code_and_the_first_word_that_kubelets_know() {
        use orlop_image::Error as E;
        let place = || ("app".to_owned(), "a.example".to_owned(), "why".to_owned());
        let ((what, host, reason), text) = (place(), || "x".to_owned());
        let down = image(E::RegistryUnavailable { what, host, reason });
        assert_eq!(down.code(), Code::Unknown);
        assert!(
            down.message().starts_with("RegistryUnavailable: "),
            "{down}"
        );
        assert!(down.message().contains("a.example"), "{down}");
        let (what, host, reason) = place();
        let gone = image(E::NotInRegistry { what, host, reason });
        let (what, host, reason) = place();
        let denied = image(E::PermissionDenied { what, host, reason });
        let (what, host, reason) = place();
        let unknown = image(E::Unauthenticated { what, host, reason });
        let (reference, reason) = (text(), text());
        for (status, code) in [
            (gone, Code::NotFound),
            (denied, Code::PermissionDenied),
            (unknown, Code::Unauthenticated),
            (image(E::NotFound(text())), Code::NotFound),
            (
                image(E::InvalidReference { reference, reason }),
                Code::InvalidArgument,
            ),
            (
                image(E::DiskFull { doing: text() }),
                Code::ResourceExhausted,
            ),
            (image(E::Cancelled(text())), Code::Cancelled),
        ] {
            assert_eq!(status.code(), code, "{status}");
            assert!(status.message().starts_with("pulling image"), "{status}");
        }
        let refused = image(E::Policy {
            path: text(),
            reason: text(),
        });
        // With another code the kubelet would see the code's name first.
        assert_eq!(refused.code(), Code::Unknown);
        assert!(
            refused
                .message()
                .starts_with("SignatureValidationFailed: pulling"),
            "{refused}"
        );
        let field = || "mounts[0].image_sub_path".to_owned();
        let inner = SpecError::NotFound {
            field: field(),
            problem: text(),
        };
        let volume = status(&Error::Spec(SpecError::ImageVolume(Box::new(inner))));
        assert_eq!(volume.code(), Code::NotFound);
        assert!(
            volume
                .message()
                .starts_with("ImageVolumeMountFailed: mounts[0]"),
            "{volume}"
        );
    }
}
