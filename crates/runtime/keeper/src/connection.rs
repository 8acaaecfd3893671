//! The connection of one daemon.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};

use orlop_keeper_protocol::{Body, Failure, FailureKind, Frame, FrameBuffer};
use rustix::io::Errno;

use crate::reactor::{Interest, Watch};

/// Limit of bytes that wait for a peer that does not read, before the keeper closes the connection.
const BACKLOG_MAX: usize = 4 << 20;

/// A connection: frames come in, replies and events go out.
#[derive(Debug)]
pub(crate) struct Connection {
    watch: Watch,
    incoming: FrameBuffer,
    outgoing: VecDeque<Outgoing>,
    backlog: usize,
    /// Whether events are sent on this connection.
    pub(crate) subscribed: bool,
}

#[derive(Debug)]
struct Outgoing {
    bytes: Vec<u8>,
    sent: usize,
    fds: Vec<OwnedFd>,
}

/// The connection has ended.
#[derive(Debug)]
pub(crate) struct Ended;

/// The destination of a reply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplyTo {
    /// The connection's key.
    pub(crate) connection: u64,
    /// The request's number.
    pub(crate) request: u32,
}

impl Connection {
    pub(crate) fn new(watch: Watch, incoming: FrameBuffer) -> Self {
        Self {
            watch,
            incoming,
            outgoing: VecDeque::new(),
            backlog: 0,
            subscribed: false,
        }
    }

    /// Reads all available data. The end is reported only after all data sent before it.
    pub(crate) fn receive(&mut self) -> Result<(), Ended> {
        let mut bytes = [0; 4096];
        loop {
            match orlop_keeper_protocol::recv(&self.watch, &mut bytes) {
                Ok((0, _)) => return Err(Ended),
                Ok((count, fds)) => self.incoming.push(&bytes[..count], fds),
                Err(Errno::AGAIN) => return Ok(()),
                Err(_) => return Err(Ended),
            }
        }
    }

    /// Returns the next request.
    pub(crate) fn next_frame(&mut self) -> Result<Option<Frame>, Ended> {
        self.incoming.pop().map_err(|_| Ended)
    }

    /// Sends a message now, or later when the peer accepts it.
    pub(crate) fn send<B: Body>(
        &mut self,
        body: &B,
        request: u32,
        fds: Vec<OwnedFd>,
    ) -> Result<(), Ended> {
        let bytes = match Frame::encode(body, request, fds.len()) {
            Ok(bytes) => bytes,
            Err(error) => {
                let failure = Failure {
                    kind: FailureKind::Failed,
                    message: format!("answering: {error}"),
                    ..Failure::default()
                };
                Frame::encode(&failure, request, 0).map_err(|_| Ended)?
            }
        };
        self.backlog += bytes.len();
        self.outgoing.push_back(Outgoing {
            bytes,
            sent: 0,
            fds,
        });
        self.flush()?;
        if self.backlog > BACKLOG_MAX {
            return Err(Ended);
        }
        Ok(())
    }

    /// Sends pending messages as far as the peer accepts them.
    pub(crate) fn flush(&mut self) -> Result<(), Ended> {
        while let Some(next) = self.outgoing.front_mut() {
            let fds: Vec<_> = next.fds.iter().map(AsFd::as_fd).collect();
            match orlop_keeper_protocol::send(&self.watch, &next.bytes[next.sent..], &fds) {
                Ok(count) => {
                    next.fds.clear();
                    next.sent += count;
                    self.backlog -= count;
                    if next.sent == next.bytes.len() {
                        self.outgoing.pop_front();
                    }
                }
                Err(Errno::AGAIN) => {
                    self.watch.set(Interest::ReadWrite);
                    return Ok(());
                }
                Err(_) => return Err(Ended),
            }
        }
        self.watch.set(Interest::Read);
        Ok(())
    }
}
