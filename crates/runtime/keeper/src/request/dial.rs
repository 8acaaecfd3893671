//! Connects to a port of the pod.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use orlop_keeper_protocol::{Dial, Dialed, Done, Failure, FailureKind};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt};

use crate::connection::ReplyTo;
use crate::failure::failure;
use crate::keeper::Keeper;
use crate::port_connection::Dialling;
use crate::reactor::{Interest, Source, Watch};

impl Keeper {
    pub(super) fn dial(
        &mut self,
        request: Dial,
        _: Vec<OwnedFd>,
        to: ReplyTo,
    ) -> Result<(), Failure> {
        let limit = Duration::from_millis(request.timeout_ms.into());
        let deadline = Instant::now() + limit;
        self.dial_on(request.port, true, deadline, to);
        Ok(())
    }

    /// Tries IPv4, and then, if `more`, IPv6.
    fn dial_on(&mut self, port: u16, more: bool, deadline: Instant, reply_to: ReplyTo) {
        let address = if more {
            SocketAddr::from((Ipv4Addr::LOCALHOST, port))
        } else {
            SocketAddr::from((Ipv6Addr::LOCALHOST, port))
        };
        let key = self.key();
        let started = begin(address).and_then(|socket| {
            Watch::new(&self.reactor, socket, Source::Dial(key), Interest::Write)
        });
        match started {
            Ok(socket) => {
                let dialling = Dialling {
                    socket,
                    port,
                    more,
                    deadline,
                    reply_to,
                };
                self.dials.insert(key, dialling);
            }
            Err(_) if more => self.dial_on(port, false, deadline, reply_to),
            Err(error) => self.refuse(port, error, reply_to),
        }
    }

    /// Handles a connection that is established or has failed.
    pub(crate) fn dial_ready(&mut self, key: u64) {
        let Some(dialling) = self.dials.remove(&key) else {
            return;
        };
        let made = match sockopt::socket_error(&dialling.socket) {
            Ok(Ok(())) => rustix::io::fcntl_dupfd_cloexec(dialling.socket.as_fd(), 3),
            Ok(Err(error)) | Err(error) => Err(error),
        };
        let Dialling {
            port,
            more,
            deadline,
            reply_to,
            ..
        } = dialling;
        match made {
            Ok(socket) => self.reply_with(reply_to, Ok((Dialed {}, vec![socket]))),
            Err(_) if more => self.dial_on(port, false, deadline, reply_to),
            Err(error) => self.refuse(port, error, reply_to),
        }
    }

    pub(crate) fn late_dials(&mut self, now: Instant) {
        let late: Vec<u64> = self
            .dials
            .iter()
            .filter(|(_, dialling)| dialling.deadline <= now)
            .map(|(key, _)| *key)
            .collect();
        for key in late {
            if let Some(dialling) = self.dials.remove(&key) {
                self.refuse(dialling.port, Errno::TIMEDOUT, dialling.reply_to);
            }
        }
    }

    fn refuse(&mut self, port: u16, error: Errno, reply_to: ReplyTo) {
        let kind = match error {
            Errno::CONNREFUSED => FailureKind::Refused,
            Errno::TIMEDOUT => FailureKind::TimedOut,
            _ => FailureKind::Failed,
        };
        let message =
            format!("cannot connect to port {port} on the pod's loopback interface: {error}");
        self.reply::<Done>(reply_to, Err(failure(kind, message)));
    }
}

fn begin(address: SocketAddr) -> rustix::io::Result<OwnedFd> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    match connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error),
    }
}
