//! A netlink socket: requests, and the kernel's answers to them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with,
    sockopt,
};

use super::message::{HEADER, Message};

/// Which part of the kernel a socket leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Route,
    Netfilter,
}

/// A socket that belongs to the network namespace of the thread that opened
/// it, from whichever thread it is used later.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

/// A socket for links, addresses, routes and queueing disciplines.
#[derive(Debug)]
pub(crate) struct Rtnl(pub(crate) Socket);

/// Any socket takes so much at once.
const USUAL_TRANSACTION: usize = 64 << 10;

/// One message of an answer: its type, and what follows the header.
pub(crate) type Reply = (u16, Vec<u8>);

impl Rtnl {
    pub(crate) fn open() -> io::Result<Self> {
        Socket::open(Protocol::Route).map(Self)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Socket {
    pub(crate) fn open(protocol: Protocol) -> io::Result<Self> {
        let protocol = match protocol {
            // NETLINK_ROUTE is number 0.
            Protocol::Route => None,
            Protocol::Netfilter => Some(rustix::net::netlink::NETFILTER),
        };
        let fd = socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            protocol,
        )?;
        bind(&fd, &SocketAddrNetlink::new(0, 0))?;
        // The kernel answers at once; a lost answer must not block for ever.
        sockopt::set_socket_timeout(&fd, sockopt::Timeout::Recv, Some(Duration::from_secs(10)))?;
        if protocol == Some(rustix::net::netlink::NETFILTER) {
            super::strict::be_brief(fd.as_fd());
        }
        Ok(Self {
            fd,
            sequence: 0,
            buffer: vec![0; 64 << 10],
        })
    }

    /// Has the kernel do something.
    pub(crate) fn request(&mut self, message: Message) -> io::Result<()> {
        self.request_all([message])
    }

    /// Has the kernel do several things, in one call; the first failure is
    /// reported after all were tried.
    pub(crate) fn request_all(
        &mut self,
        messages: impl IntoIterator<Item = Message>,
    ) -> io::Result<()> {
        let first = self.sequence + 1;
        let mut bytes = Vec::new();
        for message in messages {
            self.sequence += 1;
            bytes.extend(message.finish(self.sequence, libc::NLM_F_ACK)?);
        }
        if bytes.is_empty() {
            return Ok(());
        }
        self.send(&bytes)?;
        self.acknowledged(first..=self.sequence)
    }

    /// Asks for one thing.
    pub(crate) fn query(&mut self, message: Message) -> io::Result<Reply> {
        let replies = self.ask(message, 0)?;
        replies
            .into_iter()
            .next()
            .ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))
    }

    /// Has the kernel list only what is asked for, where it can.
    pub(super) fn be_strict(&self) -> bool {
        super::strict::be_strict(self.fd.as_fd())
    }

    /// Asks for all of a kind.
    pub(crate) fn dump(&mut self, message: Message) -> io::Result<Vec<Reply>> {
        self.ask(message, libc::NLM_F_DUMP)
    }

    /// Sends a transaction, and waits for the acknowledgement of the messages that are to have one.
    pub(crate) fn transact(&mut self, messages: Vec<(Message, bool)>) -> io::Result<()> {
        self.transact_told(messages).map(drop)
    }

    /// Does the same; what the kernel tells of messages that ask for an echo.
    pub(crate) fn transact_told(
        &mut self,
        messages: Vec<(Message, bool)>,
    ) -> io::Result<Vec<Reply>> {
        let mut bytes = Vec::new();
        let mut last_wanted = None;
        let first = self.sequence + 1;
        for (message, acknowledge) in messages {
            self.sequence += 1;
            let flag = if acknowledge { libc::NLM_F_ACK } else { 0 };
            if acknowledge {
                last_wanted = Some(self.sequence);
            }
            bytes.extend(message.finish(self.sequence, flag)?);
        }
        if bytes.len() > USUAL_TRANSACTION {
            // Where that is not allowed, what the socket takes by itself may do.
            let _ = sockopt::set_socket_send_buffer_size_force(&self.fd, bytes.len());
        }
        self.send(&bytes)?;
        let mut told = Vec::new();
        let Some(last) = last_wanted else {
            return Ok(told);
        };
        // Any message of a transaction may be answered with an error; all are
        // over when the last one that asked for it is acknowledged.
        let mut failure = None;
        loop {
            for (kind, sequence, body) in self.receive()? {
                if sequence < first {
                    continue;
                }
                if i32::from(kind) != libc::NLMSG_ERROR {
                    told.push((kind, body));
                    continue;
                }
                if let (Some(error), None) = (error_of(&body), &failure) {
                    failure = Some(error);
                }
                if sequence >= last || failure.is_some() {
                    self.drop_rest()?;
                    return failure.map_or(Ok(told), Err);
                }
            }
        }
    }

    fn ask(&mut self, message: Message, flags: i32) -> io::Result<Vec<Reply>> {
        self.sequence += 1;
        let wanted = self.sequence;
        self.send(&message.finish(wanted, flags)?)?;
        let dump = flags & libc::NLM_F_DUMP != 0;
        let mut replies = Vec::new();
        loop {
            for (kind, sequence, body) in self.receive()? {
                if sequence != wanted {
                    continue;
                }
                match i32::from(kind) {
                    libc::NLMSG_ERROR => return error_of(&body).map_or(Ok(replies), Err),
                    libc::NLMSG_DONE => return Ok(replies),
                    libc::NLMSG_NOOP => {}
                    _ => replies.push((kind, body)),
                }
            }
            if !dump && !replies.is_empty() {
                return Ok(replies);
            }
        }
    }

    fn acknowledged(&mut self, sequences: std::ops::RangeInclusive<u32>) -> io::Result<()> {
        let mut failure = None;
        let mut missing = sequences.end() - sequences.start() + 1;
        while missing > 0 {
            for (kind, sequence, body) in self.receive()? {
                if i32::from(kind) != libc::NLMSG_ERROR || !sequences.contains(&sequence) {
                    continue;
                }
                missing -= 1;
                if let (Some(error), None) = (error_of(&body), &failure) {
                    failure = Some(error);
                }
            }
        }
        failure.map_or(Ok(()), Err)
    }

    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let sent = send(&self.fd, bytes, SendFlags::empty())?;
        if sent == bytes.len() {
            Ok(())
        } else {
            Err(io::ErrorKind::WriteZero.into())
        }
    }

    /// The messages of one datagram: type, sequence number, body.
    fn receive(&mut self) -> io::Result<Vec<(u16, u32, Vec<u8>)>> {
        let length = loop {
            match recv(&self.fd, &mut self.buffer[..], RecvFlags::TRUNC) {
                Ok((_, length)) => break length,
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return Err(io::ErrorKind::TimedOut.into()),
                Err(error) => return Err(error.into()),
            }
        };
        if length > self.buffer.len() {
            return Err(io::Error::other("the response of the kernel is too large"));
        }
        let mut rest = &self.buffer[..length];
        let mut messages = Vec::new();
        while let Some((length, kind, sequence)) = header(rest) {
            let Some(body) = rest.get(HEADER..length) else {
                break;
            };
            messages.push((kind, sequence, body.to_vec()));
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
        Ok(messages)
    }

    fn drop_rest(&mut self) -> io::Result<()> {
        loop {
            match recv(&self.fd, &mut self.buffer[..], RecvFlags::DONTWAIT) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn header(bytes: &[u8]) -> Option<(usize, u16, u32)> {
    let length = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
    let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    let sequence = u32::from_ne_bytes(bytes.get(8..12)?.try_into().ok()?);
    (length >= HEADER).then_some((length, kind, sequence))
}

/// The error in an acknowledgement; `None`: it worked.
fn error_of(body: &[u8]) -> Option<io::Error> {
    let code = body
        .get(..4)
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(0, i32::from_ne_bytes);
    (code != 0).then(|| io::Error::from_raw_os_error(-code))
}
