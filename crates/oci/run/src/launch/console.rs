//! Who gets the other end of a terminal.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use orlop_oci_types::Process;

use crate::console::{to_socket, to_us};
use crate::error::{Error, Result};
use crate::plan::Terminal;

/// Who gets the other end of a terminal.
#[derive(Debug, Default)]
pub(crate) enum Console {
    /// Nobody: there is none.
    #[default]
    None,
    /// Whoever listens at a socket.
    Socket(PathBuf),
    /// This process, by this socket once it was asked for.
    Own(std::cell::RefCell<Option<OwnedFd>>),
}

impl Console {
    /// The terminal of a process that asks for one.
    pub(crate) fn terminal(&self, process: &Process) -> Result<Option<Terminal>> {
        match (self, process.terminal) {
            (Self::None | Self::Own(_), false) => Ok(None),
            (Self::Socket(_), false) => Err(Error::new(
                "cannot use console socket if the process has no terminal",
            )),
            (Self::None, true) => Err(Error::new(
                "cannot allocate tty if it will be detached without setting console socket",
            )),
            (Self::Socket(path), true) => to_socket(path, process).map(Some),
            (Self::Own(place), true) => {
                let (mut terminal, ours) = to_us(process)?;
                terminal.plain_lines = true;
                *place.borrow_mut() = Some(ours);
                Ok(Some(terminal))
            }
        }
    }
}
