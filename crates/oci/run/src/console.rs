//! The sockets through which the master end of a terminal is sent.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use orlop_oci_types::Process;

use crate::error::{Result, While};
use crate::plan::Terminal;

/// Returns a terminal whose master end goes to a socket.
pub(crate) fn to_socket(path: &Path, process: &Process) -> Result<Terminal> {
    let socket =
        UnixStream::connect(path).doing(|| format!("--console-socket {}", path.display()))?;
    Ok(terminal(socket.into(), process))
}

/// Returns a terminal whose master end comes back to this process through the returned socket.
pub(crate) fn to_us(process: &Process) -> Result<(Terminal, OwnedFd)> {
    let (theirs, ours) =
        UnixStream::pair().doing(|| "cannot create a socket for the terminal".to_owned())?;
    Ok((terminal(theirs.into(), process), ours.into()))
}

fn terminal(socket: OwnedFd, process: &Process) -> Terminal {
    let size = process.console_size.unwrap_or_default();
    let short = |number: u32| u16::try_from(number).unwrap_or(u16::MAX);
    Terminal {
        plain_lines: false,
        socket,
        rows: short(size.height),
        columns: short(size.width),
    }
}
