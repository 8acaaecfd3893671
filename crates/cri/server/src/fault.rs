//! Why a call failed, and the one place where that becomes a gRPC status.

use std::error::Error as StdError;
use std::io;

use orlop_pool::NoThread;
pub use orlop_text::with_causes as chain;
use tonic::{Code, Status};

/// What a backend's call can fail with.
pub trait Fault: StdError {
    /// The kind that clients see.
    fn code(&self) -> Code;

    /// How the message begins of a failure that kubelets know by that. They see it only with the code
    /// [`Code::Unknown`], which they strip off before they look.
    fn known_word(&self) -> Option<&'static str> {
        None
    }
}

/// A field of a request that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct Invalid {
    /// The field's path in the request.
    pub field: String,
    /// What is wrong with it and what would be right.
    pub problem: String,
}

impl Invalid {
    /// Names the field and what is wrong.
    pub fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            problem: problem.into(),
        }
    }
}

/// The answer that a caller gets.
pub fn status(fault: &(impl Fault + 'static)) -> Status {
    let message = readable(chain(fault));
    match fault.known_word() {
        _ if NoThread::is_cause(fault) => Status::resource_exhausted(message),
        Some(word) => Status::unknown(format!("{word}: {message}")),
        None => Status::new(fault.code(), message),
    }
}

/// A message that reaches its reader. A status is a header, and a client may refuse an answer whose headers
/// are too large: gRPC's library in C does from 8 KiB on, and then tells of that instead. What strangers named
/// without end is left out in the middle: a message begins with what was being done, and ends with why it failed.
fn readable(message: String) -> String {
    /// As it is sent: others than letters, digits and signs of ASCII take three bytes for each (gRPC over HTTP/2).
    const MOST: usize = 4 << 10;
    let sent = |letter: char| match letter {
        ' '..='$' | '&'..='~' => 1,
        _ => 3 * letter.len_utf8(),
    };
    if message.chars().map(sent).sum::<usize>() <= MOST {
        return message;
    }
    let half = |letters: &mut dyn Iterator<Item = char>| {
        let mut room = MOST / 2;
        letters
            .take_while(|letter| {
                let fits = room.checked_sub(sent(*letter));
                room = fits.unwrap_or_default();
                fits.is_some()
            })
            .map(char::len_utf8)
            .sum::<usize>()
    };
    let begin = &message[..half(&mut message.chars())];
    let end = &message[message.len() - half(&mut message.chars().rev())..];
    format!("{begin} ... {end}")
}

/// The kind of a system call's failure.
pub fn io_code(error: &io::Error) -> Code {
    match error.kind() {
        io::ErrorKind::StorageFull => Code::ResourceExhausted,
        _ => Code::Internal,
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_without_end_loses_its_middle_only() {
        assert_eq!(readable("as it was".into()), "as it was");
        let named = |name: &str| format!("config.user: {name}: no such user");
        for name in ["x".repeat(100_000), "\u{20ac}\n%".repeat(30_000)] {
            let message = readable(named(&name));
            assert!(message.starts_with("config.user: "), "{message}");
            assert!(message.ends_with(": no such user"), "{message}");
            let sent = Status::unknown(message).into_http::<()>();
            let length = sent.headers()["grpc-message"].len();
            assert!((4000..4200).contains(&length), "{length}");
        }
    }
}
