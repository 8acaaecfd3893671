//! Conversion of errors to a gRPC status, in one place.

use std::error::Error as StdError;
use std::io;

use orlop_pool::NoThread;
pub use orlop_text::with_causes as chain;
use tonic::{Code, Status};

/// An error of a backend's call.
pub trait Fault: StdError {
    /// Returns the gRPC status code.
    fn code(&self) -> Code;

    /// Returns the message prefix by which kubelets recognise the failure. They see it only with the code
    /// [`Code::Unknown`], which they strip before the comparison.
    fn known_word(&self) -> Option<&'static str> {
        None
    }
}

/// An invalid field of a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct Invalid {
    /// The field's path in the request.
    pub field: String,
    /// The problem and the valid values.
    pub problem: String,
}

impl Invalid {
    /// Creates an error from the field and the problem.
    pub fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            problem: problem.into(),
        }
    }
}

/// Converts an error to the status that the client receives.
pub fn status(fault: &(impl Fault + 'static)) -> Status {
    let message = readable(chain(fault));
    match fault.known_word() {
        _ if NoThread::is_cause(fault) => Status::resource_exhausted(message),
        Some(word) => Status::unknown(format!("{word}: {message}")),
        None => Status::new(fault.code(), message),
    }
}

/// Shortens a message so that clients accept it. A status is a header, and a client may reject a response with large
/// headers: gRPC's C library does from 8 KiB on, and reports only that. The middle is cut: the start has the
/// operation, and the end has the reason.
fn readable(message: String) -> String {
    /// Limit in encoded bytes: characters other than ASCII letters, digits and punctuation take three bytes each (gRPC
    /// over HTTP/2).
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

/// Returns the status code of a system error.
pub fn io_code(error: &io::Error) -> Code {
    match error.kind() {
        io::ErrorKind::StorageFull => Code::ResourceExhausted,
        _ => Code::Internal,
    }
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
