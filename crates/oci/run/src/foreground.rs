//! Foreground mode: forwards signals, connects the terminal, and returns the exit code of a process.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, read, write};
use rustix::stdio::{stdin, stdout};
use rustix::termios::{
    OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr, tcsetwinsize,
};

use crate::error::{Result, While};
use crate::sys::{next_signal, pidfd_signal, raise_signals, wait_for};

/// Waits until the process has ended; returns its exit code.
pub(crate) fn stand_by(pid: i32, process: BorrowedFd<'_>, terminal: Option<OwnedFd>) -> Result<u8> {
    let signals = raise_signals().doing(|| "cannot listen for signals".to_owned())?;
    let raw = terminal.as_ref().and_then(|_| Raw::make());
    if let Some(terminal) = &terminal {
        resize(terminal.as_fd());
    }
    let mut input_ended = false;
    loop {
        let mut ready = vec![
            PollFd::new(&process, PollFlags::IN),
            PollFd::new(&signals, PollFlags::IN),
        ];
        if let Some(terminal) = &terminal {
            ready.push(PollFd::new(terminal, PollFlags::IN));
            if !input_ended {
                ready.push(PollFd::from_borrowed_fd(stdin(), PollFlags::IN));
            }
        }
        match poll(&mut ready, None) {
            Err(Errno::INTR) => continue,
            polled => polled.doing(|| "cannot wait for the process".to_owned())?,
        };
        let is_ready: Vec<bool> = ready.iter().map(|it| !it.revents().is_empty()).collect();
        drop(ready);
        if is_ready[1] {
            while let Some(signal) = next_signal(signals.as_fd()) {
                match signal {
                    libc::SIGCHLD | libc::SIGURG => {}
                    libc::SIGWINCH if terminal.is_some() => {
                        if let Some(terminal) = &terminal {
                            resize(terminal.as_fd());
                        }
                    }
                    other => {
                        let _ = pidfd_signal(process, other);
                    }
                }
            }
        }
        if let Some(terminal) = &terminal {
            if is_ready[2] {
                copy(terminal.as_fd(), stdout());
            }
            if is_ready.get(3) == Some(&true) {
                input_ended = !copy(stdin(), terminal.as_fd());
            }
        }
        if is_ready[0] {
            break;
        }
    }
    if let Some(terminal) = &terminal {
        // The remaining output; the end of the process appears as a read error.
        while copy(terminal.as_fd(), stdout()) {}
    }
    drop(raw);
    let code = wait_for(pid).doing(|| "cannot wait for the process".to_owned())?;
    Ok(u8::try_from(code).unwrap_or(u8::MAX))
}

/// Copies available data; returns false at the end.
fn copy(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> bool {
    let mut chunk = [0; 8192];
    let count = match read(from, &mut chunk) {
        Ok(0) => return false,
        Ok(count) => count,
        Err(error) => return error == Errno::INTR,
    };
    let mut left = &chunk[..count];
    while !left.is_empty() {
        match write(to, left) {
            Ok(written) => left = &left[written..],
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
    true
}

fn resize(terminal: BorrowedFd<'_>) {
    if let Ok(size) = tcgetwinsize(stdin()) {
        let _ = tcsetwinsize(terminal, size);
    }
}

/// Our own terminal in raw mode, restored when this is dropped.
struct Raw(Termios);

impl Raw {
    fn make() -> Option<Self> {
        if !isatty(stdin()) {
            return None;
        }
        let before = tcgetattr(stdin()).ok()?;
        let mut raw = before.clone();
        raw.make_raw();
        raw.output_modes = before.output_modes;
        tcsetattr(stdin(), OptionalActions::Now, &raw).ok()?;
        Some(Self(before))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.0);
    }
}
