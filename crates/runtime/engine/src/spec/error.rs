//! Errors of the conversion from a request to an OCI specification.

use std::io;

/// The reason why a request cannot become a container; the variant determines the gRPC code.
///
/// The texts begin with the field of the request.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request is invalid.
    #[error("{field}: {problem}")]
    InvalidArgument {
        /// The field, as the CRI names it.
        field: String,
        /// The problem, and the correct form.
        problem: String,
    },
    /// An object that the request names does not exist.
    #[error("{field}: {problem}")]
    NotFound {
        /// The field, as the CRI names it.
        field: String,
        /// The missing object.
        problem: String,
    },
    /// The request is valid, but this node, handler or pod cannot fulfil it.
    #[error("{field}: {problem}")]
    FailedPrecondition {
        /// The field, as the CRI names it.
        field: String,
        /// The obstacle.
        problem: String,
    },
    /// The handler does not support a recursive read-only mount. Kubelets look for the first word of the
    /// message.
    #[error(
        "RROUnsupported: {field}: the runtime handler does not support recursive read-only mounts"
    )]
    RecursiveReadOnlyUnsupported {
        /// The field, as the CRI names it.
        field: String,
    },
    /// An image cannot be mounted as a volume. Kubelets look for the first word of the message.
    #[error("ImageVolumeMountFailed: {0}")]
    ImageVolume(Box<Self>),
    /// An I/O operation on the node failed.
    #[error("{field}: {action}: {source}")]
    Io {
        /// The field, as the CRI names it.
        field: String,
        /// The operation and its object.
        action: String,
        /// The kernel's error.
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn invalid(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::InvalidArgument {
            field: field.into(),
            problem: problem.into(),
        }
    }

    pub(crate) fn not_found(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::NotFound {
            field: field.into(),
            problem: problem.into(),
        }
    }

    pub(crate) fn unmet(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::FailedPrecondition {
            field: field.into(),
            problem: problem.into(),
        }
    }

    pub(crate) fn io(
        field: impl Into<String>,
        action: impl Into<String>,
        source: impl Into<io::Error>,
    ) -> Self {
        Self::Io {
            field: field.into(),
            action: action.into(),
            source: source.into(),
        }
    }
}
