//! Terminal of a command in a container: its controlling end, and the threads that copy between it and the command's
//! FIFOs. The keeper manages a container's own terminal.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::{Errno, read, write};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::error::{Result, unknown};
use crate::program::background;

/// A terminal whose copying stops when it is dropped.
#[derive(Debug)]
pub(crate) struct Terminal {
    controller: Arc<OwnedFd>,
    stop: Arc<OwnedFd>,
}

impl Terminal {
    /// Starts to copy input and output.
    pub(crate) fn copy(controller: OwnedFd, input: OwnedFd, output: OwnedFd) -> Result<Self> {
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let stop = stop.map_err(|error| unknown(format!("serving a terminal: {error}")))?;
        let (controller, stop) = (Arc::new(controller), Arc::new(stop));
        let (from, until) = (Arc::clone(&controller), Arc::clone(&stop));
        background(move || copy(&from, &output, &until, &from))?;
        let (to, until) = (Arc::clone(&controller), Arc::clone(&stop));
        background(move || copy(&input, &to, &until, &to))?;
        Ok(Self { controller, stop })
    }

    pub(crate) fn resize(&self, rows: u16, columns: u16) -> Result<()> {
        let size = Winsize {
            ws_row: rows,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&self.controller, size)
            .map_err(|error| unknown(format!("resizing a terminal: {error}")))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = write(&self.stop, &1_u64.to_ne_bytes());
    }
}

/// Copies until one end is closed, the terminal's other side is closed, or `stop` is signalled.
fn copy(from: &OwnedFd, to: &OwnedFd, stop: &OwnedFd, terminal: &OwnedFd) {
    let mut bytes = [0; 4096];
    loop {
        let mut fds = [
            PollFd::new(from, PollFlags::IN),
            PollFd::new(terminal, PollFlags::empty()),
            PollFd::new(stop, PollFlags::IN),
        ];
        match poll(&mut fds, None) {
            Err(Errno::INTR) => continue,
            Err(_) => return,
            Ok(_) => {}
        }
        let [input, hung, stopped] = fds.map(|fd| fd.revents());
        if input.contains(PollFlags::IN) {
            match read(from, &mut bytes) {
                Ok(0) => return,
                Ok(count) if write_all(to, &bytes[..count], stop).is_err() => return,
                Ok(_) | Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => return,
            }
        } else if !hung.is_empty() || !input.is_empty() || !stopped.is_empty() {
            return;
        }
    }
}

fn write_all(to: &OwnedFd, mut bytes: &[u8], stop: &OwnedFd) -> Result<(), Errno> {
    while !bytes.is_empty() {
        let mut fds = [
            PollFd::new(to, PollFlags::OUT),
            PollFd::new(stop, PollFlags::IN),
        ];
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        if !fds[0].revents().contains(PollFlags::OUT) {
            if fds[0].revents().is_empty() && fds[1].revents().is_empty() {
                continue;
            }
            return Err(Errno::PIPE);
        }
        match write(to.as_fd(), bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
