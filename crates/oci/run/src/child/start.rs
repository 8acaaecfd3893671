//! The wait for the start of a container.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;
use rustix::path::DecInt;

use super::fresh::own_proc_of_processes;
use crate::report::{At as _, Fault, Step};
use crate::state::FIFO;

/// Resources for the wait for the start. Other processes of a shared PID namespace may reach its descriptors, so it
/// holds no directory of the host.
pub(super) enum Start {
    /// An `O_PATH` descriptor of the fifo, and the process's descriptors in its own `/proc`.
    Fifo { fifo: OwnedFd, fds: OwnedFd },
    /// The directory of the fifo, if no `/proc` is available.
    Directory(OwnedFd),
}

impl Start {
    /// Opens the fifo in the directory. `proc` is the container's own.
    pub(super) fn prepare(dir: OwnedFd, proc: Option<&OwnedFd>) -> Result<Self, Fault> {
        let fds = match proc {
            Some(proc) => descriptors_in(proc.as_fd()),
            None => own_proc_of_processes().and_then(|proc| descriptors_in(proc.as_fd())),
        };
        match fds {
            Ok(fds) => {
                let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let fifo = openat(&dir, FIFO, flags, Mode::empty()).at(Step::Fifo)?;
                Ok(Self::Fifo { fifo, fds })
            }
            // An unprivileged user without a PID namespace cannot mount one.
            Err(_) => Ok(Self::Directory(dir)),
        }
    }

    pub(super) fn descriptors(&self) -> [Option<BorrowedFd<'_>>; 2] {
        match self {
            Self::Fifo { fifo, fds } => [Some(fifo.as_fd()), Some(fds.as_fd())],
            Self::Directory(dir) => [Some(dir.as_fd()), None],
        }
    }

    /// Opens the fifo for writing, which waits for a reader: the command that starts the container.
    pub(super) fn wait(self) -> Result<(), Fault> {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let open = || match &self {
            Self::Fifo { fifo, fds } => {
                let number = DecInt::new(fifo.as_raw_fd());
                openat(fds, number.as_c_str(), flags, Mode::empty())
            }
            Self::Directory(dir) => openat(dir, FIFO, flags | OFlags::NOFOLLOW, Mode::empty()),
        };
        let fifo = loop {
            match open() {
                Err(Errno::INTR) => {}
                opened => break opened.at(Step::Fifo)?,
            }
        };
        drop(self);
        rustix::io::write(&fifo, b"0").at(Step::Fifo).map(drop)
    }
}

fn descriptors_in(proc: BorrowedFd<'_>) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_XDEV | ResolveFlags::NO_MAGICLINKS;
    openat2(proc, c"thread-self/fd", flags, Mode::empty(), resolve)
}
