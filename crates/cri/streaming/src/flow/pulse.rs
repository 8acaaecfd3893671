//! Noticing that a peer is gone while nothing is read from it.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;

/// How often a peer that is held back is looked at.
const INTERVAL: Duration = Duration::from_secs(5);

/// A look at a connection's socket besides reading it: a peer that vanishes while it is held back
/// would otherwise go unnoticed behind the data that nobody reads.
pub(crate) struct Pulse(Option<OwnedFd>);

impl Pulse {
    pub(crate) fn of(socket: BorrowedFd<'_>) -> Self {
        // Without it, the idle timeout ends the connection in the end.
        Self(socket.try_clone_to_owned().ok())
    }

    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// Completes some time after the peer has closed or reset the connection. Costs a timer only
    /// while it is polled.
    pub(crate) async fn lost(&self) {
        let Some(socket) = &self.0 else {
            return std::future::pending().await;
        };
        loop {
            tokio::time::sleep(INTERVAL).await;
            if hung_up(socket) {
                return;
            }
        }
    }
}

fn hung_up(socket: &OwnedFd) -> bool {
    let signs = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
    let mut fds = [PollFd::new(socket, PollFlags::RDHUP)];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    retry_on_intr(|| poll(&mut fds, Some(&now))).is_ok() && fds[0].revents().intersects(signs)
}
