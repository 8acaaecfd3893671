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
