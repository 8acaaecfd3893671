//! What goes wrong, as one line for whoever called.

use std::fmt;

/// Why a command was not done.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub(crate) struct Error {
    text: String,
    /// What the program ends with.
    pub(crate) code: u8,
}

/// What most functions return.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error that ends the program with 1.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            code: 1,
        }
    }

    /// The same error, ending the program with another code.
    pub(crate) fn with_code(mut self, code: u8) -> Self {
        self.code = code;
        self
    }

    /// The same error, told as part of something.
    pub(crate) fn within(mut self, what: impl fmt::Display) -> Self {
        self.text = format!("{what}: {}", self.text);
        self
    }
}

/// Says what was being done when something else failed.
pub(crate) trait While<T> {
    /// With this text before the reason.
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
            // As C programs and Go's write them: `no such file or directory`.
            (Some(first), Some(second)) if first.is_uppercase() && second.is_lowercase() => {
                write!(f, "{}{}", first.to_lowercase(), &plain[first.len_utf8()..])
            }
            _ => f.write_str(plain),
        }
    }
}

/// What an error number means, in lower case.
pub(crate) fn meaning(errno: i32) -> String {
    Plain(&std::io::Error::from_raw_os_error(errno)).to_string()
}
