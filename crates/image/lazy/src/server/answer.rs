//! Replies with data: spliced from a layer's file to the kernel through a pipe, without a copy in user space.

use std::fs::File;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};

use crate::fuse::{MOST_AT_ONCE, Reply};

/// Size of the pipe. It holds one piece per page; a reply has one more piece for its head, and one more if it does
/// not begin at a page boundary. Any process may use a pipe of this size by default.
const PIPE_SIZE: usize = 2 * MOST_AT_ONCE;

/// Sends data replies, one at a time.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    pipe: Option<Pipe>,
}

#[derive(Debug)]
struct Pipe {
    from: OwnedFd,
    to: OwnedFd,
}

impl Answers {
    /// Creates the value with its pipe, unlike the default.
    pub(crate) fn ready() -> rustix::io::Result<Self> {
        Ok(Self {
            pipe: Some(Pipe::new()?),
        })
    }

    /// Answers a read with bytes of a file, which must be present.
    pub(crate) fn send(&mut self, fuse: impl AsFd, unique: u64, file: &File, bytes: Range<u64>) {
        let head = Reply::head(unique, 16 + (bytes.end - bytes.start) as usize, None);
        if bytes.is_empty() {
            Reply::done(unique).send(fuse);
            return;
        }
        if let Err(errno) = self.fill(&head, file, bytes) {
            self.pipe = None;
            eprintln!("orlop-lazy: cannot read a layer: {errno}");
            Reply::error(unique, Errno::IO).send(fuse);
            return;
        }
        if let Some(pipe) = &self.pipe {
            // The reply must be written at once. An error because the reader is gone is ignored.
            let length = u32::from_ne_bytes([head[0], head[1], head[2], head[3]]) as usize;
            let sent = splice(&pipe.from, None, &fuse, None, length, SpliceFlags::empty());
            if sent != Ok(length) {
                // The pipe may still contain a part of the reply.
                self.pipe = None;
            }
            if let Err(errno) = sent
                && errno != Errno::NOENT
            {
                Reply::error(unique, Errno::IO).send(fuse);
            }
        }
    }

    fn fill(&mut self, head: &[u8], file: &File, bytes: Range<u64>) -> rustix::io::Result<()> {
        if self.pipe.is_none() {
            self.pipe = Some(Pipe::new()?);
        }
        let Some(pipe) = &self.pipe else {
            return Err(Errno::NOMEM);
        };
        rustix::io::write(&pipe.to, head)?;
        let mut at = bytes.start;
        while at < bytes.end {
            let left = (bytes.end - at) as usize;
            let flags = SpliceFlags::empty();
            if splice(file, Some(&mut at), &pipe.to, None, left, flags)? == 0 {
                return Err(Errno::IO);
            }
        }
        Ok(())
    }
}

impl Pipe {
    fn new() -> rustix::io::Result<Self> {
        let (from, to) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        fcntl_setpipe_size(&to, PIPE_SIZE)?;
        Ok(Self { from, to })
    }
}
