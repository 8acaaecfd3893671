//! Why no OCI specification can be made from a request.

use std::io;

/// A request that cannot become a container, with the kind of answer it deserves.
///
/// The texts begin with the field of the request they speak of.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request itself is wrong.
    #[error("{field}: {problem}")]
    InvalidArgument {
        /// The field, as the interface names it.
        field: String,
        /// What is wrong with it and what would be right.
        problem: String,
    },
    /// Something the request names is not there.
    #[error("{field}: {problem}")]
    NotFound {
        /// The field, as the interface names it.
        field: String,
        /// What is missing.
        problem: String,
    },
    /// The request is right, but this node, handler or pod cannot fulfil it.
    #[error("{field}: {problem}")]
    FailedPrecondition {
        /// The field, as the interface names it.
        field: String,
        /// What stands against it.
        problem: String,
    },
    /// Recursive read-only was asked of a handler without it. The first word is the one kubelets
    /// look for.
    #[error(
        "RROUnsupported: {field}: the runtime handler does not support recursive read-only mounts"
    )]
    RecursiveReadOnlyUnsupported {
        /// The field, as the interface names it.
        field: String,
    },
    /// An image cannot be mounted as a volume. The first word is the one kubelets look for.
    #[error("ImageVolumeMountFailed: {0}")]
    ImageVolume(Box<Self>),
    /// The node failed us.
    #[error("{field}: {action}: {source}")]
    Io {
        /// The field, as the interface names it.
        field: String,
        /// What was being done to what.
        action: String,
        /// The kernel's answer.
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
