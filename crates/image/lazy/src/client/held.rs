//! File descriptors that let a session outlive its server.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// A session: its `/dev/fuse`, and the journal of the requests read from it. As long as any process holds them, the
/// mount stays alive and readers wait.
#[derive(Debug)]
pub struct Held {
    fuse: OwnedFd,
    journal: OwnedFd,
}

impl Held {
    /// Reports whether the kernel still has the session.
    pub fn is_alive(&self) -> bool {
        let mut fds = [PollFd::new(&self.fuse, PollFlags::empty())];
        let at_once = Timespec::default();
        let polled = poll(&mut fds, Some(&at_once));
        polled.is_ok() && !fds[0].revents().contains(PollFlags::ERR)
    }

    pub(super) fn fds(&self) -> [BorrowedFd<'_>; 2] {
        [self.fuse.as_fd(), self.journal.as_fd()]
    }
}

impl From<[OwnedFd; 2]> for Held {
    fn from([fuse, journal]: [OwnedFd; 2]) -> Self {
        Self { fuse, journal }
    }
}
