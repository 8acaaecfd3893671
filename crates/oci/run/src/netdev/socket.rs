//! A netlink socket for network configuration.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::{Errno, Result};
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with,
    sockopt,
};

use super::message::{HEADER, Message, number};

/// It belongs to the network namespace in which it was opened, even if its owner enters another one.
#[derive(Debug)]
pub(super) struct Socket {
    fd: OwnedFd,
    sequence: u32,
}

/// Buffer size for one datagram of the kernel.
const ROOM: usize = 64 << 10;

impl Socket {
    pub(super) fn open() -> Result<Self> {
        // NETLINK_ROUTE is number 0.
        let fd = socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            None,
        )?;
        bind(&fd, &SocketAddrNetlink::new(0, 0))?;
        // The kernel replies at once; the timeout covers a lost reply.
        let patience = Some(Duration::from_secs(10));
        sockopt::set_socket_timeout(&fd, sockopt::Timeout::Recv, patience)?;
        Ok(Self { fd, sequence: 0 })
    }

    /// Sends a request; returns the bodies of the replies.
    pub(super) fn ask(&mut self, message: Message) -> Result<Vec<Vec<u8>>> {
        self.sequence += 1;
        let bytes = message.finish(self.sequence);
        if send(&self.fd, &bytes, SendFlags::empty())? != bytes.len() {
            return Err(Errno::MSGSIZE);
        }
        let mut told = Vec::new();
        let mut buffer = vec![0; ROOM];
        loop {
            let length = match recv(&self.fd, &mut buffer[..], RecvFlags::TRUNC) {
                Ok((_, length)) if length > buffer.len() => return Err(Errno::MSGSIZE),
                Ok((_, length)) => length,
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno),
            };
            if self.take(&buffer[..length], &mut told)? {
                return Ok(told);
            }
        }
    }

    /// Parses a datagram; returns true at the end of the reply.
    fn take(&self, mut bytes: &[u8], told: &mut Vec<Vec<u8>>) -> Result<bool> {
        while let Some(length) = number(bytes, 0) {
            let message = bytes.get(..length as usize).ok_or(Errno::BADMSG)?;
            let body = message.get(HEADER..).ok_or(Errno::BADMSG)?;
            bytes = bytes
                .get(message.len().next_multiple_of(4)..)
                .unwrap_or_default();
            if number(message, 8) != Some(self.sequence) {
                continue;
            }
            match i32::from(u16::from_ne_bytes([message[4], message[5]])) {
                libc::NLMSG_DONE => return Ok(true),
                // `struct nlmsgerr`: an acknowledgement is an error of number 0.
                libc::NLMSG_ERROR => match number(body, 0).ok_or(Errno::BADMSG)? as i32 {
                    0 => return Ok(true),
                    errno => return Err(Errno::from_raw_os_error(errno.wrapping_neg())),
                },
                _ => told.push(body.to_vec()),
            }
        }
        Ok(false)
    }
}
