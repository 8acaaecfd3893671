//! A connection to the server, with one request at a time.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use orlop_keeper_protocol::{
    Body, Failure, Frame, FrameBuffer, LAZY_VERSION, LazyHello, LazyReady, Message, Request,
};
use rustix::io::Errno;

use super::error::{Error, Result};
use super::held::Held;

/// Timeout of a reply. The server handles every request quickly.
const LIMIT: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct Connection {
    socket: UnixStream,
    incoming: FrameBuffer,
    last: u32,
}

impl Connection {
    pub(super) fn new(socket: UnixStream) -> Result<Self> {
        socket
            .set_read_timeout(Some(LIMIT))
            .map_err(Error::Socket)?;
        socket
            .set_write_timeout(Some(LIMIT))
            .map_err(Error::Socket)?;
        Ok(Self {
            socket,
            incoming: FrameBuffer::new(),
            last: 0,
        })
    }

    pub(super) fn socket(&self) -> &UnixStream {
        &self.socket
    }

    /// Greets a running server; returns its process ID and the session's descriptors.
    pub(super) fn hello(&mut self) -> Result<(u32, Held)> {
        let hello = LazyHello {
            version: LAZY_VERSION,
        };
        self.welcomed(&hello, &[])
    }

    /// Sends a request whose reply describes the server.
    pub(super) fn welcomed<R: Request<Reply = LazyReady>>(
        &mut self,
        request: &R,
        fds: &[BorrowedFd<'_>],
    ) -> Result<(u32, Held)> {
        let (ready, fds) = self.call(request, fds)?;
        let fds: [OwnedFd; 2] = fds
            .try_into()
            .map_err(|_| Error::Malformed(orlop_keeper_protocol::Malformed::MissingFds))?;
        Ok((ready.pid, Held::from(fds)))
    }

    /// Sends a request and waits for its reply.
    pub(super) fn call<R: Request>(
        &mut self,
        request: &R,
        fds: &[BorrowedFd<'_>],
    ) -> Result<(R::Reply, Vec<OwnedFd>)> {
        self.last = self.last.wrapping_add(1).max(1);
        let number = self.last;
        send(&self.socket, request, number, fds)?;
        loop {
            let frame = self.next()?;
            // A late reply to a request that timed out is dropped.
            if frame.request != number {
                continue;
            }
            if frame.kind == R::Reply::KIND {
                return Ok((R::Reply::decode(&frame.payload)?, frame.fds));
            }
            let failure = Failure::decode(&frame.payload)?;
            return Err(Error::Refused {
                kind: failure.kind,
                message: failure.message,
            });
        }
    }

    /// Returns the next message.
    pub(super) fn next(&mut self) -> Result<Frame> {
        let mut bytes = [0; 4096];
        loop {
            if let Some(frame) = self.incoming.pop()? {
                return Ok(frame);
            }
            let (count, fds) =
                orlop_keeper_protocol::recv(&self.socket, &mut bytes).map_err(ended)?;
            if count == 0 {
                return Err(Error::Gone);
            }
            self.incoming.push(&bytes[..count], fds);
        }
    }
}

/// Sends one message.
pub(super) fn send<B: Body>(
    socket: impl AsFd,
    body: &B,
    number: u32,
    fds: &[BorrowedFd<'_>],
) -> Result<()> {
    let bytes = Frame::encode(body, number, fds.len())?;
    let mut sent = 0;
    while sent < bytes.len() {
        let fds = if sent == 0 { fds } else { &[] };
        sent += orlop_keeper_protocol::send(&socket, &bytes[sent..], fds).map_err(ended)?;
    }
    Ok(())
}

fn ended(errno: Errno) -> Error {
    match errno {
        Errno::PIPE | Errno::CONNRESET => Error::Gone,
        Errno::AGAIN => Error::Socket(io::ErrorKind::TimedOut.into()),
        errno => Error::Socket(errno.into()),
    }
}
