//! Errors of a configuration, with their origin.

use std::fmt;
use std::path::PathBuf;

/// One error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// Origin of the wrong value.
    pub(crate) origin: Origin,
    /// The wrong key with its table: `grpc.listen`.
    pub(crate) key: Option<String>,
    pub(crate) message: String,
}

/// Origin of a value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Origin {
    /// Built-in default.
    Default,
    /// A line of a file, or the whole file.
    File(PathBuf, Option<usize>),
    /// A command line flag.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path, Some(line)) => write!(f, "{}:{line}", path.display()),
            Self::File(path, None) => write!(f, "{}", path.display()),
            Self::Flag(flag) => f.write_str(flag),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.origin)?;
        if let Some(key) = &self.key {
            write!(f, "{key}: ")?;
        }
        f.write_str(&self.message)
    }
}

/// All errors of a configuration; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problems(pub(crate) Vec<Problem>);

impl fmt::Display for Problems {
    /// One line, for a log or the final error message of a daemon that does not start.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((first, others)) = self.0.split_first() else {
            return Ok(());
        };
        first.fmt(f)?;
        match others.len() {
            0 => Ok(()),
            1 => f.write_str(" (and one more problem; run `orlop config check` to list all)"),
            more => write!(
                f,
                " (and {more} more problems; run `orlop config check` to list all)"
            ),
        }
    }
}

impl std::error::Error for Problems {}
