//! A process handle (pidfd). A process ID may be reused, a handle never is.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Polling interval if the exit cannot be awaited.
const LOOK: Duration = Duration::from_millis(100);

/// A handle on a process, which stays valid after its exit.
#[derive(Debug)]
pub struct Held(OwnedFd);

impl Held {
    /// Opens the process that currently has this ID.
    pub fn open(pid: u32) -> io::Result<Self> {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(Self(pidfd_open(pid, PidfdFlags::empty())?))
    }

    /// Whether the process has exited, reaped or not.
    pub fn has_ended(&self) -> bool {
        let mut polled = [PollFd::new(&self.0, PollFlags::IN)];
        let now = Timespec::default();
        retry_on_intr(|| poll(&mut polled, Some(&now))).is_ok_and(|ready| ready > 0)
    }

    /// Waits for the process to exit.
    pub async fn ended(&self) {
        if let Some(waiting) = self.registered()
            && waiting.readable().await.is_ok()
        {
            return;
        }
        while !self.has_ended() {
            tokio::time::sleep(LOOK).await;
        }
    }

    #[allow(unsafe_code, reason = "the descriptor belongs to the registration")]
    fn registered(&self) -> Option<AsyncFd<OwnedFd>> {
        // A duplicate, because a descriptor can be registered only once.
        let copy = self.0.try_clone().ok()?;
        // SAFETY: an owned descriptor stays open and unchanged until it is dropped, which is after its registration has
        // ended.
        unsafe { AsyncFd::register_with_interest(copy, Interest::READABLE) }.ok()
    }

    /// Kills the process. Succeeds if it has exited.
    pub fn kill(&self) -> io::Result<()> {
        match pidfd_send_signal(&self.0, Signal::KILL) {
            Err(rustix::io::Errno::SRCH) => Ok(()),
            result => Ok(result?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[tokio::test]
    async fn a_process_is_held_beyond_its_end() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let held = Held::open(child.id()).unwrap();
        assert!(!held.has_ended());
        held.kill().unwrap();
        held.ended().await;
        assert!(held.has_ended());
        child.wait().unwrap();
        // The process ID is free now; the descriptor still refers to the exited process.
        assert!(held.has_ended());
        held.kill().unwrap();
    }
}
