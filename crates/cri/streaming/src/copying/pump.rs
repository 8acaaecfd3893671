//! Copying between file descriptors and streams.

use std::io::{self, IoSlice};
use std::os::fd::AsFd;

use rustix::io::Errno;
use tokio::io::Interest;
use tokio_util::sync::CancellationToken;

use super::output::{FIRST_BUFFER, Output};
use super::readiness::Readiness;
use crate::flow::{Input, LARGEST_BUFFER};

/// Size to which the pipe of a bulk transfer is enlarged, for fewer and larger reads.
const BULK_PIPE: usize = 1024 * 1024;
/// Number of consecutive full reads that count as a bulk transfer.
const BULK_AFTER: u32 = 8;
const DEFAULT_PIPE: usize = 64 * 1024;

impl Output {
    /// Copies from `source` (a pipe, a pty master or a socket) until its end.
    ///
    /// Once `last` is cancelled, available data is still copied, but nothing more is waited for. A descendant that
    /// keeps the other end open therefore does not delay the end.
    pub async fn pump_from(
        &mut self,
        source: impl AsFd,
        last: &CancellationToken,
    ) -> io::Result<u64> {
        let source = source.as_fd();
        let ready = Readiness::new(source, Interest::READABLE)?;
        let mut buffer = vec![0; FIRST_BUFFER];
        let mut copied = 0;
        let mut full_reads = 0;
        loop {
            let read = tokio::select! {
                biased;
                result = ready.io(Interest::READABLE, || rustix::io::read(source, &mut buffer)) => {
                    result
                }
                () = last.cancelled() => match rustix::io::read(source, &mut buffer) {
                    Err(Errno::AGAIN) => return Ok(copied),
                    result => result.map_err(io::Error::from),
                },
            };
            let read = match read {
                Ok(0) => return Ok(copied),
                Ok(read) => read,
                // A pty master returns EIO when its last slave is closed.
                Err(error) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => {
                    return Ok(copied);
                }
                Err(error) => return Err(error),
            };
            self.write(&buffer[..read]).await?;
            copied += read as u64;
            if read >= DEFAULT_PIPE {
                full_reads += 1;
                if full_reads == BULK_AFTER {
                    // Fails for anything but a pipe, which is harmless.
                    let _ = rustix::pipe::fcntl_setpipe_size(source, BULK_PIPE);
                }
            }
            if read == buffer.len() && read < LARGEST_BUFFER {
                buffer.resize(read * 2, 0);
            }
        }
    }
}

impl Input {
    /// Copies all input into `target` (a pipe, a pty master or a socket) until the peer ends it. If `target` has no
    /// reader any more, returns an error of the kind [`io::ErrorKind::BrokenPipe`].
    pub async fn pump_to(&mut self, target: impl AsFd) -> io::Result<u64> {
        let target = target.as_fd();
        let ready = Readiness::new(target, Interest::WRITABLE)?;
        let mut copied = 0;
        let mut bulk = false;
        loop {
            let (first, second) = self.fill().await?;
            if first.is_empty() {
                return Ok(copied);
            }
            let parts = [IoSlice::new(first), IoSlice::new(second)];
            let written = ready
                .io(Interest::WRITABLE, || rustix::io::writev(target, &parts))
                .await?;
            self.consumed(written);
            copied += written as u64;
            if !bulk && copied >= BULK_PIPE as u64 {
                bulk = true;
                // Fails for anything but a pipe, which is harmless.
                let _ = rustix::pipe::fcntl_setpipe_size(target, BULK_PIPE);
            }
        }
    }
}
