//! Netlink socket: sends requests and reads the kernel's answers.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with,
    sockopt,
};

use super::message::{HEADER, Message};

/// The kernel subsystem of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Route,
    Netfilter,
}

/// A socket bound to the network namespace of the thread that opened it. It may be used from any thread later.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

/// A socket for links, addresses, routes and queueing disciplines.
#[derive(Debug)]
pub(crate) struct Rtnl(pub(crate) Socket);

/// Size of a transaction that any socket accepts.
const USUAL_TRANSACTION: usize = 64 << 10;

/// One message of an answer: its type, and the bytes after the header.
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

    /// Sends a request and waits for its acknowledgement.
    pub(crate) fn request(&mut self, message: Message) -> io::Result<()> {
        self.request_all([message])
    }

    /// Sends several requests in one call. Tries all of them and then returns the first failure.
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

    /// Requests one object.
    pub(crate) fn query(&mut self, message: Message) -> io::Result<Reply> {
        let replies = self.ask(message, 0)?;
        replies
            .into_iter()
            .next()
            .ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))
    }

    /// Enables strict checking, so that the kernel lists only the requested objects, if it supports that.
    pub(super) fn be_strict(&self) -> bool {
        super::strict::be_strict(self.fd.as_fd())
    }

    /// Requests a list of all objects of a kind.
    pub(crate) fn dump(&mut self, message: Message) -> io::Result<Vec<Reply>> {
        self.ask(message, libc::NLM_F_DUMP)
    }

    /// Sends a transaction, and waits for the acknowledgements of the messages that request one.
    pub(crate) fn transact(&mut self, messages: Vec<(Message, bool)>) -> io::Result<()> {
        self.transact_told(messages).map(drop)
    }

    /// Sends a transaction like [`Self::transact`]; returns the kernel's replies to messages that request an echo.
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
            // Without the permission, the socket's usual buffer may be sufficient.
            let _ = sockopt::set_socket_send_buffer_size_force(&self.fd, bytes.len());
        }
        self.send(&bytes)?;
        let mut told = Vec::new();
        let Some(last) = last_wanted else {
            return Ok(told);
        };
        // Any message of a transaction may cause an error. The transaction is complete when the last message that
        // requested an acknowledgement has it.
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

    /// Reads the messages of one datagram: type, sequence number, body.
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

/// Returns the error in an acknowledgement; `None` means success.
fn error_of(body: &[u8]) -> Option<io::Error> {
    let code = body
        .get(..4)
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(0, i32::from_ne_bytes);
    (code != 0).then(|| io::Error::from_raw_os_error(-code))
}
