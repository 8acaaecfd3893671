//! Detection of a vanished peer while its connection is not read.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;

/// How often to check the socket of a peer under backpressure.
const INTERVAL: Duration = Duration::from_secs(5);

/// Checks a connection's socket without reading it. Otherwise, a peer that vanishes under backpressure would go
/// unnoticed behind unread data.
pub(crate) struct Pulse(Option<OwnedFd>);

impl Pulse {
    pub(crate) fn of(socket: BorrowedFd<'_>) -> Self {
        // Without the duplicate, the idle timeout eventually ends the connection.
        Self(socket.try_clone_to_owned().ok())
    }

    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// Completes some time after the peer has closed or reset the connection. Costs a timer only while it is polled.
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
