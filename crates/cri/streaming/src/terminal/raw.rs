//! Raw mode, and the way back out of it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use parking_lot::Mutex;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};

/// What [`restore`] has to do. One terminal can be raw at a time.
static SAVED: Mutex<Option<(OwnedFd, Termios)>> = Mutex::new(None);

/// A terminal that passes every key on as it is. Dropping this puts it back as it was.
///
/// Drop runs when a session ends, fails or panics. A program that leaves by
/// [`std::process::exit`], from a signal handler or a panic hook, calls [`restore`] before.
#[derive(Debug)]
pub struct RawMode(());

impl RawMode {
    /// Makes a terminal raw. `None` if it is no terminal, which then stays as it is.
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
        // Noted first: whatever happens from here on, there is a way back.
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

/// Puts the terminal back as it was before [`RawMode::enable`], if that was called and not yet
/// undone.
pub fn restore() {
    let saved = SAVED.lock().take();
    if let Some((terminal, before)) = saved
        && let Err(error) = tcsetattr(&terminal, OptionalActions::Now, &before)
    {
        tracing::debug!(%error, "cannot restore the terminal settings");
    }
}
