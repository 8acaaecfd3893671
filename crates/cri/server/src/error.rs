//! Errors of a backend's calls, and the gRPC status code of each.

/// Defines a backend's `Error`: the variants of all backends and its own, which are written with the attributes of
/// `thiserror`.
#[macro_export]
macro_rules! backend_error {
    ($($own:tt)*) => {
        /// The error of a call.
        #[derive(Debug, thiserror::Error)]
        pub enum Error {
            /// The pod, container or image does not exist.
            #[error("{what} {id:?} not found")]
            NotFound {
                /// The kind of object: "pod sandbox", "container" …
                what: &'static str,
                /// The id or name in the request.
                id: String,
            },
            /// The request is invalid.
            #[error("{field}: {problem}")]
            Invalid {
                /// The field's path in the request.
                field: String,
                /// The problem and the valid values.
                problem: String,
            },
            /// The object is in the wrong state.
            #[error("{0}")]
            Precondition(String),
            /// The operation exceeded the caller's deadline or our timeout.
            #[error("{0}")]
            Timeout(String),
            /// Not supported here; the message has the reason.
            #[error("{0}")]
            Unimplemented(String),
            /// A limit of this node is reached.
            #[error("{0}")]
            Exhausted(String),
            /// The node has a problem, not the request.
            #[error("{0}")]
            Internal(String),
            /// A system call failed.
            #[error("{doing}")]
            Io {
                /// The operation and its object.
                doing: String,
                /// The system's error.
                #[source]
                source: std::io::Error,
            },
            /// Setup or teardown of the pod's network failed.
            #[error("{doing}")]
            Network {
                /// The operation and its object.
                doing: String,
                /// The library's error.
                #[source]
                source: orlop_network::Error,
            },
            $($own)*
        }

        impl Error {
            /// Creates an error about an invalid field.
            pub fn invalid(field: impl Into<String>, problem: impl Into<String>) -> Self {
                Self::Invalid {
                    field: field.into(),
                    problem: problem.into(),
                }
            }

            /// Returns a function for `map_err` that adds the operation to a system error.
            pub fn io(doing: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
                let doing = doing.into();
                move |source| Self::Io { doing, source }
            }

            /// Returns the status code of a variant that all backends have.
            fn common_code(&self) -> Option<tonic::Code> {
                Some(match self {
                    Self::NotFound { .. } => tonic::Code::NotFound,
                    Self::Invalid { .. } => tonic::Code::InvalidArgument,
                    Self::Precondition(_) => tonic::Code::FailedPrecondition,
                    Self::Timeout(_) => tonic::Code::DeadlineExceeded,
                    Self::Unimplemented(_) => tonic::Code::Unimplemented,
                    Self::Exhausted(_) => tonic::Code::ResourceExhausted,
                    Self::Internal(_) => tonic::Code::Internal,
                    Self::Io { source, .. } => $crate::fault::io_code(source),
                    Self::Network { .. } => tonic::Code::Unknown,
                    _ => return None,
                })
            }
        }

        impl From<$crate::joins::Failure> for Error {
            fn from(failure: $crate::joins::Failure) -> Self {
                match failure {
                    $crate::joins::Failure::Broken(_) => Self::Internal(failure.to_string()),
                    $crate::joins::Failure::Another(_) => Self::Precondition(failure.to_string()),
                }
            }
        }

        impl From<$crate::fault::Invalid> for Error {
            fn from(invalid: $crate::fault::Invalid) -> Self {
                Self::invalid(invalid.field, invalid.problem)
            }
        }

        impl From<$crate::sessions::Refused> for Error {
            fn from(refused: $crate::sessions::Refused) -> Self {
                match refused {
                    $crate::sessions::Refused::Invalid(invalid) => invalid.into(),
                    $crate::sessions::Refused::Full(_) => Self::Exhausted(refused.to_string()),
                }
            }
        }
    };
}
