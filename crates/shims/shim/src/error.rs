//! Errors, with messages for the caller of the runtime.

use std::io;
use std::path::Path;

/// An error of this program.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{0}")]
    Usage(String),
    #[error("{doing}: {source}")]
    Io { doing: String, source: io::Error },
    #[error("cannot parse {0}")]
    Garbled(String),
    #[error("the shim refused {method}: {message} (code {code})")]
    Refused {
        method: String,
        code: i32,
        message: String,
    },
    #[error("container {0} does not exist")]
    NoContainer(String),
    #[error("{0}")]
    Failed(String),
}

pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Returns a function that adds the operation and the file to an error.
    pub(crate) fn file<'a>(
        doing: &'a str,
        path: &'a Path,
    ) -> impl FnOnce(io::Error) -> Self + use<'a> {
        move |source| Self::Io {
            doing: format!("{doing} {}", path.display()),
            source,
        }
    }

    /// Creates an error for a program that cannot be executed, with a remedy.
    pub(crate) fn program(path: &Path, error: &io::Error) -> Self {
        let remedy = match error.kind() {
            io::ErrorKind::NotFound => "install it, or correct `path`",
            io::ErrorKind::PermissionDenied => "make it executable",
            _ => "install a build for this machine",
        };
        let path = path.display();
        Self::Failed(format!("cannot execute {path} ({error}); {remedy}"))
    }

    /// Treats "not found" as the success of a removal.
    pub(crate) fn unless_gone<T>(ended: Result<T>) -> Result<()> {
        match ended {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }

    /// Whether the shim does not implement the call. Shims in Rust report that as not found.
    pub(crate) fn is_not_there(&self) -> bool {
        match self {
            Self::Refused { code, message, .. } => {
                *code == orlop_ttrpc::code::UNIMPLEMENTED || message.ends_with(" is not supported")
            }
            _ => false,
        }
    }

    /// Whether the shim does not know the task or process.
    pub(crate) fn is_not_found(&self) -> bool {
        match self {
            Self::NoContainer(_) => true,
            Self::Refused { code, .. } => *code == orlop_ttrpc::code::NOT_FOUND,
            _ => false,
        }
    }
}

impl From<orlop_ttrpc::Error> for Error {
    fn from(error: orlop_ttrpc::Error) -> Self {
        use orlop_ttrpc::Error as Called;
        match error {
            Called::Io { method, source } => Self::Io {
                doing: format!("calling {method} of the shim"),
                source,
            },
            Called::Garbled(method) => Self::Garbled(format!("the shim's response to {method}")),
            Called::Refused {
                method,
                code,
                message,
            } => Self::Refused {
                method,
                code,
                message,
            },
        }
    }
}
