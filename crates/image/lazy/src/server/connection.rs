//! A connection to the daemon.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use orlop_keeper_protocol::{Body, Frame, FrameBuffer};
use rustix::io::Errno;

/// Maximum number of bytes queued for a peer that does not read.
const BACKLOG_MOST: usize = 4 << 20;

/// The connection is closed or failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended;

/// Receives frames; sends replies and events.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: OwnedFd,
    incoming: FrameBuffer,
    outgoing: Vec<u8>,
}

impl Connection {
    /// Wraps a nonblocking socket and the bytes that were already read from it.
    pub(crate) fn new(socket: OwnedFd, incoming: FrameBuffer) -> Self {
        Self {
            socket,
            incoming,
            outgoing: Vec::new(),
        }
    }

    /// Reads all available bytes.
    pub(crate) fn receive(&mut self) -> Result<(), Ended> {
        let mut bytes = [0; 4096];
        match orlop_keeper_protocol::recv(&self.socket, &mut bytes) {
            Ok((0, _)) => Err(Ended),
            Ok((count, fds)) => {
                self.incoming.push(&bytes[..count], fds);
                Ok(())
            }
            Err(Errno::AGAIN) => Ok(()),
            Err(_) => Err(Ended),
        }
    }

    /// Returns the next complete message.
    pub(crate) fn next_frame(&mut self) -> Result<Option<Frame>, Ended> {
        self.incoming.pop().map_err(|_| Ended)
    }

    /// Sends a message, at once or when the peer can receive it.
    pub(crate) fn send<B: Body>(&mut self, body: &B, request: u32) -> Result<(), Ended> {
        let bytes = Frame::encode(body, request, 0).map_err(|_| Ended)?;
        self.outgoing.extend_from_slice(&bytes);
        self.flush()?;
        if self.outgoing.len() > BACKLOG_MOST {
            return Err(Ended);
        }
        Ok(())
    }

    /// Sends a message with file descriptors. The send queue must be empty.
    pub(crate) fn send_with<B: Body>(
        &mut self,
        body: &B,
        request: u32,
        fds: &[BorrowedFd<'_>],
    ) -> Result<(), Ended> {
        let bytes = Frame::encode(body, request, fds.len()).map_err(|_| Ended)?;
        if !self.outgoing.is_empty() {
            return Err(Ended);
        }
        let count = orlop_keeper_protocol::send(&self.socket, &bytes, fds).map_err(|_| Ended)?;
        self.outgoing.extend_from_slice(&bytes[count..]);
        Ok(())
    }

    /// Sends queued bytes, as far as the peer receives them.
    pub(crate) fn flush(&mut self) -> Result<(), Ended> {
        while !self.outgoing.is_empty() {
            match orlop_keeper_protocol::send(&self.socket, &self.outgoing, &[]) {
                Ok(count) => drop(self.outgoing.drain(..count)),
                Err(Errno::AGAIN) => return Ok(()),
                Err(_) => return Err(Ended),
            }
        }
        self.outgoing = Vec::new();
        Ok(())
    }

    /// Reports whether bytes are queued.
    pub(crate) fn is_behind(&self) -> bool {
        !self.outgoing.is_empty()
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
