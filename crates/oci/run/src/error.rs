//! Errors as one line for the caller.

use std::fmt;

/// The failure of a command.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub(crate) struct Error {
    text: String,
    /// The exit code of the program.
    pub(crate) code: u8,
}

/// The result type of most functions.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Creates an error with exit code 1.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            code: 1,
        }
    }

    /// Changes the exit code.
    pub(crate) fn with_code(mut self, code: u8) -> Self {
        self.code = code;
        self
    }

    /// Adds a context before the message.
    pub(crate) fn within(mut self, what: impl fmt::Display) -> Self {
        self.text = format!("{what}: {}", self.text);
        self
    }
}

/// Adds the failed operation to an error.
pub(crate) trait While<T> {
    /// Puts this text before the reason.
    fn doing(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: fmt::Display> While<T> for std::result::Result<T, E> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| Error::new(format!("{}: {}", what(), Plain(&error))))
    }
}

/// An error of the system without the number that Rust's library adds.
struct Plain<'a, E>(&'a E);

impl<E: fmt::Display> fmt::Display for Plain<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.to_string();
        let plain = text
            .rfind(" (os error ")
            .map_or(text.as_str(), |at| &text[..at]);
        let mut chars = plain.chars();
        match (chars.next(), chars.next()) {
            // In the style of C and Go programs: `no such file or directory`.
            (Some(first), Some(second)) if first.is_uppercase() && second.is_lowercase() => {
                write!(f, "{}{}", first.to_lowercase(), &plain[first.len_utf8()..])
            }
            _ => f.write_str(plain),
        }
    }
}

/// Returns the message of an error number, in lower case.
pub(crate) fn meaning(errno: i32) -> String {
    Plain(&std::io::Error::from_raw_os_error(errno)).to_string()
}
