//! Pipes and other file descriptors in non-blocking mode.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Returns a pipe whose read end never blocks.
pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    nonblocking(&read)?;
    Ok((read, write))
}

/// Sets a descriptor to non-blocking mode.
pub(crate) fn nonblocking(fd: impl AsFd) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(&fd)?;
    rustix::fs::fcntl_setfl(&fd, flags | rustix::fs::OFlags::NONBLOCK)?;
    Ok(())
}
