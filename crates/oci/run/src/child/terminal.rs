//! The container's terminal, whose master end goes to the caller.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, ResolveFlags, fstat, fstatfs, openat2};
use rustix::io::{Errno, Result};
use rustix::mount::{OpenTreeFlags, open_tree};
use rustix::process::ioctl_tiocsctty;
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, unlockpt};
use rustix::termios::{OptionalActions, OutputModes, Winsize, tcgetattr, tcsetattr, tcsetwinsize};

use super::root::{find_outside_proc, place};
use crate::plan::Terminal;
use crate::sys::send_with;

/// `DEVPTS_SUPER_MAGIC`.
const DEVPTS: i64 = 0x1cd1;

/// Makes a terminal in the file system of `root`, sends its master end, and returns the other one. With `console` it is
/// also mounted at `/dev/console`.
pub(super) fn open(terminal: &Terminal, root: BorrowedFd<'_>, console: bool) -> Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    // Symlinks are refused: a container must not redirect this to a terminal of the host.
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS;
    let other = openat2(root, c"dev/pts/ptmx", flags, Mode::empty(), resolve)?;
    let device = fstat(&other)?.st_rdev;
    let is_ptmx = (rustix::fs::major(device), rustix::fs::minor(device)) == (5, 2);
    if !is_ptmx || fstatfs(&other)?.f_type as i64 != DEVPTS {
        return Err(Errno::NOTTY);
    }
    unlockpt(&other)?;
    let this = ioctl_tiocgptpeer(
        &other,
        OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC,
    )?;
    if terminal.plain_lines {
        // Before anything is printed.
        let mut settings = tcgetattr(&this)?;
        settings.output_modes.remove(OutputModes::ONLCR);
        tcsetattr(&this, OptionalActions::Now, &settings)?;
    }
    if (terminal.rows, terminal.columns) != (0, 0) {
        let size = Winsize {
            ws_row: terminal.rows,
            ws_col: terminal.columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&this, size)?;
    }
    if console {
        let target = find_outside_proc(root, c"dev/console", true)?;
        let flags = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_EMPTY_PATH;
        let copy = open_tree(&this, c"", flags)?;
        place(copy.as_fd(), target.as_fd())?;
    }
    // With a name, as runc does.
    send_with(terminal.socket.as_fd(), b"/dev/ptmx", other.as_fd())?;
    Ok(this)
}

/// Makes a terminal the controlling one and the standard streams.
pub(super) fn take(terminal: OwnedFd) -> Result<()> {
    ioctl_tiocsctty(&terminal)?;
    rustix::stdio::dup2_stdin(&terminal)?;
    rustix::stdio::dup2_stdout(&terminal)?;
    rustix::stdio::dup2_stderr(&terminal)?;
    if terminal.as_raw_fd() <= 2 {
        std::mem::forget(terminal);
    }
    Ok(())
}
