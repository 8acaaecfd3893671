//! The errors of a backend's calls, and the kind of gRPC status that each becomes.

/// A backend's `Error`: what all of them have, and after that what this one has besides, written as
/// variants with the attributes of `thiserror`.
#[macro_export]
macro_rules! backend_error {
    ($($own:tt)*) => {
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
            /// Known, and not to be had here; the reason is in the message.
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
                source: std::io::Error,
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
            $($own)*
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
            pub fn io(doing: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
                let doing = doing.into();
                move |source| Self::Io { doing, source }
            }

            /// The kind of what all backends have.
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
