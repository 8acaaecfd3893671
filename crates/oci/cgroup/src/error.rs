//! Errors of cgroup operations.

use std::io;
use std::path::PathBuf;

use crate::PathError;

/// A failed cgroup operation.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The path is invalid.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The kernel refused an operation.
    #[error("{action} {path}: {source}", path = path.display())]
    Io {
        /// The operation.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error from the kernel.
        source: io::Error,
    },
    /// No cgroup filesystem is mounted.
    #[error("no cgroup filesystem is mounted; mount one at /sys/fs/cgroup")]
    NotMounted,
    /// A required controller is missing.
    #[error("the cgroup controller {0} is not available on this node")]
    NoController(&'static str),
    /// Processes remain in the cgroup although they were killed.
    #[error(
        "the cgroup {path} still contains processes ({count}; first PID: {first}), which may be \
         blocked on a device that does not respond"
    )]
    Busy {
        /// The path of the cgroup.
        path: String,
        /// The number of processes.
        count: usize,
        /// The PID of one of them.
        first: i32,
    },
    /// A kernel file contains an unexpected value.
    #[error("{path} contains {text:?}, which is not {expected}", path = path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The content of the file.
        text: String,
        /// The expected format.
        expected: &'static str,
    },
    /// systemd refused an operation or did not respond.
    #[error("systemd request failed ({action}): {problem}")]
    Systemd {
        /// The operation.
        action: String,
        /// The reason.
        problem: String,
    },
}

impl Error {
    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }

    /// Returns whether the cgroup or file does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { source, .. }
            if source.kind() == io::ErrorKind::NotFound
                || source.raw_os_error() == Some(libc::ENODEV))
    }
}
