//! Raw mode of the terminal, and its restoration.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use parking_lot::Mutex;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};

/// The state for [`restore`]. Only one terminal can be raw at a time.
static SAVED: Mutex<Option<(OwnedFd, Termios)>> = Mutex::new(None);

/// A terminal in raw mode. Dropping this restores the terminal.
///
/// Drop runs when a session ends, fails or panics. A program that exits by [`std::process::exit`], from a signal
/// handler or a panic hook must call [`restore`] first.
#[derive(Debug)]
pub struct RawMode(());

impl RawMode {
    /// Puts a terminal into raw mode. `None` if the descriptor is no terminal.
    pub fn enable(terminal: impl AsFd) -> io::Result<Option<Self>> {
        let terminal = terminal.as_fd();
        if !rustix::termios::isatty(terminal) {
            return Ok(None);
        }
        let before = tcgetattr(terminal)?;
        let keep = rustix::io::fcntl_dupfd_cloexec(terminal, 0)?;
        let mut raw = before.clone();
        raw.make_raw();
        let mut saved = SAVED.lock();
        if saved.is_some() {
            return Err(io::Error::new(
                io::ErrorKind::ResourceBusy,
                "the terminal is already in raw mode",
            ));
        }
        // Saved first, so that the terminal can be restored from here on.
        *saved = Some((keep, before));
        drop(saved);
        tcsetattr(terminal, OptionalActions::Now, &raw).inspect_err(|_| restore())?;
        Ok(Some(Self(())))
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        restore();
    }
}

/// Restores the terminal to its state before [`RawMode::enable`], if it is still raw.
pub fn restore() {
    let saved = SAVED.lock().take();
    if let Some((terminal, before)) = saved
        && let Err(error) = tcsetattr(&terminal, OptionalActions::Now, &before)
    {
        tracing::debug!(%error, "cannot restore the terminal settings");
    }
}
