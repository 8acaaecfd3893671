//! The receiver of a terminal's master end.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use orlop_oci_types::Process;

use crate::console::{to_socket, to_us};
use crate::error::{Error, Result};
use crate::plan::Terminal;

/// The receiver of a terminal's master end.
#[derive(Debug, Default)]
pub(crate) enum Console {
    /// There is no terminal.
    #[default]
    None,
    /// The listener of a socket.
    Socket(PathBuf),
    /// This process, through this socket once a terminal was requested.
    Own(std::cell::RefCell<Option<OwnedFd>>),
}

impl Console {
    /// Returns the terminal of a process that requests one.
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
