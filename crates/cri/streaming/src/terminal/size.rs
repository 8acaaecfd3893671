//! The terminal's current size and its changes.

use std::io;
use std::os::fd::AsFd;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use crate::session::TerminalSize;

/// Returns the size of a terminal; `None` if the descriptor is no terminal.
pub fn size(terminal: impl AsFd) -> Option<TerminalSize> {
    let size = rustix::termios::tcgetwinsize(terminal).ok()?;
    Some(TerminalSize {
        width: size.ws_col,
        height: size.ws_row,
    })
}

/// Follows a terminal's size until it is dropped.
pub struct SizeWatch {
    sizes: watch::Receiver<TerminalSize>,
    _follower: AbortOnDropHandle<()>,
}

impl SizeWatch {
    /// Starts with the current size. `None` if the descriptor is no terminal.
    pub fn start(terminal: impl AsFd) -> io::Result<Option<Self>> {
        let Some(first) = size(&terminal) else {
            return Ok(None);
        };
        let terminal = rustix::io::fcntl_dupfd_cloexec(terminal.as_fd(), 0)?;
        let mut changes = signal(SignalKind::window_change())?;
        let (sender, sizes) = watch::channel(first);
        let follower = tokio::spawn(async move {
            while changes.recv().await.is_some() {
                let Some(now) = size(&terminal) else { return };
                sender.send_if_modified(|size| std::mem::replace(size, now) != now);
            }
        });
        Ok(Some(Self {
            sizes,
            _follower: AbortOnDropHandle::new(follower),
        }))
    }

    /// Returns a receiver of sizes for a session's streams.
    pub fn sizes(&self) -> watch::Receiver<TerminalSize> {
        self.sizes.clone()
    }
}
