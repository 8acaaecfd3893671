//! Terminal between the caller and a shim with its own terminal.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::IoSlice;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{ioctl_tiocsctty, setsid};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};

use crate::error::{Error, Result};

/// Both ends of a terminal in raw mode.
#[derive(Debug)]
pub(crate) struct Terminal {
    socket: PathBuf,
    controller: Option<OwnedFd>,
    end: OwnedFd,
}

impl Terminal {
    /// Creates a terminal and makes it this process's controlling terminal, to get its size signals.
    pub(crate) fn make(socket: &Path) -> Result<Self> {
        let made = || -> rustix::io::Result<Self> {
            let (controller, end) = pair()?;
            let mut mode = tcgetattr(&end)?;
            mode.make_raw();
            tcsetattr(&end, OptionalActions::Now, &mode)?;
            setsid()?;
            ioctl_tiocsctty(&end)?;
            Ok(Self {
                socket: socket.to_owned(),
                controller: Some(controller),
                end,
            })
        };
        made().map_err(not_made)
    }

    /// Returns the end for the container.
    pub(crate) fn end(&self) -> Result<OwnedFd> {
        let copied = self.end.try_clone();
        copied.map_err(|source| Error::Io {
            doing: "duplicating the file descriptor of a terminal".into(),
            source,
        })
    }

    /// Sends the other end to the caller.
    pub(crate) fn hand_over(&mut self) -> Result<()> {
        match self.controller.take() {
            Some(controller) => send(&controller, &self.socket),
            None => Ok(()),
        }
    }
}

/// Creates a terminal, sends one end to the caller, and returns the other, which is not in raw mode.
pub(crate) fn given_to(socket: &Path) -> Result<OwnedFd> {
    let (controller, end) = pair().map_err(not_made)?;
    send(&controller, socket)?;
    Ok(end)
}

fn pair() -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&controller)?;
    unlockpt(&controller)?;
    let name = ptsname(&controller, Vec::new())?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let end = rustix::fs::open(name, flags, Mode::empty())?;
    Ok((controller, end))
}

fn send(controller: &OwnedFd, socket: &Path) -> Result<()> {
    let failed = || Error::file("sending the terminal to", socket);
    let socket = UnixStream::connect(socket).map_err(failed())?;
    let fds = [controller.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&fds));
    let name = [IoSlice::new(b"/dev/ptmx")];
    let sent = sendmsg(&socket, &name, &mut control, SendFlags::NOSIGNAL);
    sent.map(drop).map_err(|errno| failed()(errno.into()))
}

fn not_made(errno: rustix::io::Errno) -> Error {
    Error::Io {
        doing: "creating a terminal".into(),
        source: errno.into(),
    }
}
