//! Non-blocking calls on file descriptors that wait for readiness.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::OFlags;
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Readiness of a file descriptor. A regular file or `/dev/null` is always ready and cannot be registered.
pub(super) enum Readiness {
    Polled(AsyncFd<OwnedFd>),
    Always,
}

impl Readiness {
    pub(super) fn new(fd: BorrowedFd<'_>, interest: Interest) -> io::Result<Self> {
        let flags = rustix::fs::fcntl_getfl(fd)?;
        if !flags.contains(OFlags::NONBLOCK) {
            rustix::fs::fcntl_setfl(fd, flags | OFlags::NONBLOCK)?;
        }
        // A duplicate, so that two pumps can wait for one pty master.
        let duplicate = rustix::io::fcntl_dupfd_cloexec(fd, 0)?;
        // SAFETY: an `OwnedFd` has the same open descriptor from its making to its drop.
        match unsafe { AsyncFd::register_with_interest(duplicate, interest) } {
            Ok(registered) => Ok(Self::Polled(registered)),
            Err(error) => {
                let (_, cause) = error.into_parts();
                if cause.raw_os_error() == Some(Errno::PERM.raw_os_error()) {
                    Ok(Self::Always)
                } else {
                    Err(cause)
                }
            }
        }
    }

    /// Repeats `call` until it returns something other than "would block".
    pub(super) async fn io<T>(
        &self,
        interest: Interest,
        mut call: impl FnMut() -> rustix::io::Result<T>,
    ) -> io::Result<T> {
        match self {
            Self::Polled(fd) => fd.async_io(interest, |_| Ok(call()?)).await,
            Self::Always => {
                tokio::task::yield_now().await;
                Ok(rustix::io::retry_on_intr(call)?)
            }
        }
    }
}
