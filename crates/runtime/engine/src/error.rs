//! The errors of the engine.

use std::sync::Arc;

use orlop_cri_server::fault::Fault;
pub use orlop_cri_server::fault::chain;
use orlop_launch::FailureKind;
use tonic::{Code, Status};

use crate::spec::Error as SpecError;

/// Result of the engine. Errors are shared, because several callers may wait for one operation.
pub type Result<T, E = Arc<Error>> = std::result::Result<T, E>;

orlop_cri_server::backend_error! {
    /// Another object has this identity.
    #[error("{0}")]
    Exists(String),
    /// An operation on an image failed.
    #[error("{doing}")]
    Image {
        /// The operation and the image.
        doing: String,
        /// The error of the image store.
        #[source]
        source: orlop_image_store::Error,
    },
    /// The configuration cannot be converted to an OCI spec.
    #[error("{0}")]
    Spec(#[from] crate::spec::Error),
    /// The keeper or the low-level runtime failed.
    #[error("{doing}")]
    Launch {
        /// The operation and its object.
        doing: String,
        /// The error of the launch library.
        #[source]
        source: orlop_launch::Error,
    },
    /// A plugin of the node failed or refused the request.
    #[error("{0}")]
    Plugins(#[from] orlop_nri::Error),
}

/// Converts an error to the gRPC status that the caller gets.
pub fn status(error: &Error) -> Status {
    orlop_cri_server::fault::status(error)
}

impl Fault for Error {
    fn code(&self) -> Code {
        match self {
            Self::Exists(_) => Code::AlreadyExists,
            Self::Launch { source, .. }
                if source.failure_kind() == Some(FailureKind::Exhausted) =>
            {
                Code::ResourceExhausted
            }
            Self::Plugins(orlop_nri::Error::Plugin { .. }) | Self::Launch { .. } => Code::Unknown,
            Self::Plugins(_) => Code::FailedPrecondition,
            Self::Image { source, .. } => image_code(source),
            Self::Spec(error) => spec_code(error),
            common => common.common_code().unwrap_or(Code::Unknown),
        }
    }

    fn known_word(&self) -> Option<&'static str> {
        match self {
            Self::Image { source, .. } => source.first_word(),
            _ => None,
        }
    }
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

fn image_code(error: &orlop_image_store::Error) -> Code {
    use orlop_image_store::Error as E;
    match error {
        E::InvalidReference { .. } | E::Ambiguous(_) | E::ShortName { .. } => Code::InvalidArgument,
        E::Searched { last, .. } => image_code(last),
        E::NotFound(_) | E::NotInRegistry { .. } => Code::NotFound,
        E::Unauthenticated { .. } => Code::Unauthenticated,
        E::PermissionDenied { .. } | E::Blocked { .. } | E::NoKey { .. } => Code::PermissionDenied,
        E::Busy(_) => Code::Unavailable,
        E::Changed(_) => Code::Aborted,
        E::DiskFull { .. } | E::TooLarge { .. } | E::Crowded(_) => Code::ResourceExhausted,
        E::DigestMismatch { .. } | E::Damaged { .. } => Code::DataLoss,
        E::Unsupported(_)
        | E::InvalidImage { .. }
        | E::Configuration { .. }
        | E::Keys { .. }
        | E::Unlabelled { .. } => Code::FailedPrecondition,
        E::Cancelled(_) => Code::Cancelled,
        _ => Code::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(source: orlop_image_store::Error) -> Status {
        let doing = "pulling image \"a.example/app:1\"".to_owned();
        status(&Error::Image { doing, source })
    }

    #[test]
    fn failures_of_images_have_the_code_and_the_first_word_that_kubelets_know() {
        use orlop_image_store::Error as E;
        let place_of = || ("app".to_owned(), "a.example".to_owned(), "why".to_owned());
        let ((what, host, reason), text) = (place_of(), || "x".to_owned());
        let down = image(E::RegistryUnavailable { what, host, reason });
        assert_eq!(down.code(), Code::Unknown);
        assert!(
            down.message().starts_with("RegistryUnavailable: "),
            "{down}"
        );
        assert!(down.message().contains("a.example"), "{down}");
        let (what, host, reason) = place_of();
        let gone = image(E::NotInRegistry { what, host, reason });
        let (what, host, reason) = place_of();
        let denied = image(E::PermissionDenied { what, host, reason });
        let (what, host, reason) = place_of();
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
        let (name, reason, place, rule) = (text(), text(), text(), text());
        let short = image(E::ShortName { name, reason });
        assert_eq!(short.code(), Code::InvalidArgument);
        let blocked = image(E::Blocked {
            image: text(),
            place,
        });
        assert_eq!(blocked.code(), Code::PermissionDenied);
        // The last error of several searched places has the same code as that error alone.
        let (what, host, reason) = place_of();
        let searched = image(E::Searched {
            name: text(),
            rule,
            reasons: text(),
            last: Box::new(E::RegistryUnavailable { what, host, reason }),
        });
        assert_eq!(searched.code(), Code::Unknown);
        let word = searched.message().starts_with("RegistryUnavailable: ");
        assert!(word, "{searched}");
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
