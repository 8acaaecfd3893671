//! What can go wrong with a cgroup.

use std::io;
use std::path::PathBuf;

use crate::PathError;

/// A cgroup operation that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The place is not one.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The kernel refused.
    #[error("{action} {path}: {source}", path = path.display())]
    Io {
        /// What was being done.
        action: &'static str,
        /// To which file or directory.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// No cgroup filesystem is mounted.
    #[error("no cgroup filesystem is mounted; mount one at /sys/fs/cgroup")]
    NotMounted,
    /// The controller that is needed is not there.
    #[error("the cgroup controller {0} is not available on this node")]
    NoController(&'static str),
    /// Processes are left in the cgroup although it was killed.
    #[error(
        "the cgroup {path} still contains processes ({count}; first PID: {first}), which may be \
         blocked on a device that does not respond"
    )]
    Busy {
        /// The cgroup.
        path: String,
        /// How many there are.
        count: usize,
        /// One of them.
        first: i32,
    },
    /// A value in a file of the kernel is not what it should be.
    #[error("{path} contains {text:?}, which is not {expected}", path = path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What it holds.
        text: String,
        /// What it should be.
        expected: &'static str,
    },
    /// systemd refused or could not be asked.
    #[error("systemd request failed ({action}): {problem}")]
    Systemd {
        /// What was asked.
        action: String,
        /// Why it did not happen.
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

    /// Whether the cgroup or file does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { source, .. }
            if source.kind() == io::ErrorKind::NotFound
                || source.raw_os_error() == Some(libc::ENODEV))
    }
}
