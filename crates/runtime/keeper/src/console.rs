//! The socket through which a runtime hands over the controlling end of a terminal.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::fs::{Mode, unlink};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, socket_with,
};
use rustix::process::umask;

use crate::pipe::nonblocking;
use crate::pod::Pod;
use crate::reactor::{Interest, Reactor, Source, Watch};

/// A socket that a runtime connects to, then the terminal that it sent. Dropping this removes the socket's file.
#[derive(Debug)]
pub(crate) struct Console {
    path: PathBuf,
    key: u64,
    reactor: Rc<Reactor>,
    listener: Option<Watch>,
    peer: Option<Watch>,
    terminal: Option<OwnedFd>,
}

impl Console {
    pub(crate) fn listen(pod: &Pod, reactor: &Rc<Reactor>, key: u64) -> io::Result<Self> {
        let socket = socket_with(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            None,
        )?;
        let path = pod.short_path(&format!("tty-{key}"));
        let _ = unlink(&path);
        let usual = umask(Mode::from_bits_truncate(0o177));
        let bound = bind(&socket, &SocketAddrUnix::new(&path)?);
        umask(usual);
        bound?;
        listen(&socket, 1)?;
        let listener = Watch::new(reactor, socket, Source::Console(key), Interest::Read)?;
        Ok(Self {
            path,
            key,
            reactor: Rc::clone(reactor),
            listener: Some(listener),
            peer: None,
            terminal: None,
        })
    }

    /// Returns the socket's path, for the runtime's command line.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Accepts the connection and receives the terminal, as far as possible without blocking.
    pub(crate) fn progress(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        if let Some(listener) = &self.listener
            && let Ok(socket) = accept_with(listener, flags)
        {
            let source = Source::Console(self.key);
            self.peer = Watch::new(&self.reactor, socket, source, Interest::Read).ok();
            self.listener = None;
        }
        if let Some(peer) = &self.peer {
            // The bytes sent with the descriptor name the terminal and are ignored.
            let mut bytes = [0; 4096];
            match orlop_keeper_protocol::recv(peer, &mut bytes) {
                Ok((_, mut fds)) => {
                    self.terminal = fds.pop().filter(|fd| nonblocking(fd).is_ok());
                    self.peer = None;
                }
                Err(rustix::io::Errno::AGAIN) => {}
                Err(_) => self.peer = None,
            }
        }
    }

    /// Takes the terminal, if it was received.
    pub(crate) fn take_terminal(&mut self) -> Option<OwnedFd> {
        self.terminal.take()
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        let _ = unlink(&self.path);
    }
}
