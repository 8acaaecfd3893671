//! Asynchronous standard input and output that leave the descriptors' mode unchanged.
//!
//! These descriptors are shared with other processes, such as the shell, which would break if they became
//! non-blocking.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, Interest, ReadBuf};

/// A standard descriptor for reading.
pub struct Standard(Source);

enum Source {
    /// A terminal, a pipe or a socket.
    Polled(AsyncFd<OwnedFd>),
    /// A regular file, whose reads never block for long.
    File(OwnedFd),
}

/// Opens a descriptor, usually of a terminal, for reading and leaves its mode unchanged.
pub fn input(fd: impl AsFd) -> io::Result<Standard> {
    let own = rustix::io::fcntl_dupfd_cloexec(fd.as_fd(), 0)?;
    // SAFETY: an `OwnedFd` has the same open descriptor from its making to its drop.
    match unsafe { AsyncFd::register_with_interest(own, Interest::READABLE) } {
        Ok(polled) => Ok(Standard(Source::Polled(polled))),
        Err(error) => match error.into_parts() {
            (own, cause) if cause.raw_os_error() == Some(Errno::PERM.raw_os_error()) => {
                Ok(Standard(Source::File(own)))
            }
            (_, cause) => Err(cause),
        },
    }
}

/// Opens a descriptor for writing; a separate thread waits if its reader is slow.
pub fn output(fd: impl AsFd) -> io::Result<tokio::fs::File> {
    let own = rustix::io::fcntl_dupfd_cloexec(fd.as_fd(), 0)?;
    Ok(tokio::fs::File::from_std(std::fs::File::from(own)))
}

impl AsyncRead for Standard {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let fd = match &self.get_mut().0 {
            Source::File(fd) => fd,
            Source::Polled(polled) => loop {
                let mut guard = ready!(polled.poll_read_ready(cx))?;
                if has_input(polled.get_ref())? {
                    break polled.get_ref();
                }
                guard.clear_ready();
            },
        };
        let read = rustix::io::retry_on_intr(|| rustix::io::read(fd, buf.initialize_unfilled()))?;
        buf.advance(read);
        Poll::Ready(Ok(()))
    }
}

/// Whether a read would return at once. Without this check, a read after another reader's would block.
fn has_input(fd: &OwnedFd) -> io::Result<bool> {
    let mut fds = [PollFd::new(fd, PollFlags::IN)];
    match poll(
        &mut fds,
        Some(&Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        }),
    ) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
