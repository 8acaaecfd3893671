//! An idle process, around which systemd creates a scope.

use std::os::fd::AsFd as _;

use orlop_oci_types::Resources;
use rustix::process::{Signal, set_parent_process_death_signal};

use super::place::Cgroup;
use crate::error::{Error, Result, While};
use crate::sys::{Cloned, Side, exit_now, fork, pidfd_signal, wait_for};

/// An idle process that ends when this is dropped, and with its parent.
#[derive(Debug)]
pub(crate) struct Holder {
    process: Option<Cloned>,
    /// Limits to set once it is gone, because they leave no room for it.
    then: Option<(Cgroup, Resources)>,
}

impl Holder {
    pub(super) fn start() -> Result<Self> {
        let parent = rustix::process::getpid();
        match fork().doing(|| "clone3".to_owned())? {
            Side::Parent(process) => Ok(Self {
                process: Some(process),
                then: None,
            }),
            Side::Child => {
                let bound = set_parent_process_death_signal(Some(Signal::KILL));
                // The parent may have exited before.
                while bound.is_ok() && rustix::process::getppid() == Some(parent) {
                    let _ = rustix::event::poll(&mut [], None);
                }
                exit_now(1)
            }
        }
    }

    pub(super) fn pid(&self) -> i32 {
        self.process.as_ref().map_or(0, |process| process.pid)
    }

    /// Adds limits to be set once the process is gone.
    pub(super) fn and_then(mut self, limits: Option<(Cgroup, Resources)>) -> Self {
        self.then = limits;
        self
    }

    /// Ends the process: the container's process keeps the cgroup alive now.
    pub(crate) fn release(mut self) -> Result<()> {
        self.end();
        match self.then.take() {
            Some((cgroup, limits)) => cgroup.update(&limits),
            None => Ok(()),
        }
    }

    fn end(&mut self) {
        if let Some(process) = self.process.take() {
            let _ = pidfd_signal(process.pidfd.as_fd(), libc::SIGKILL);
            let _ = wait_for(process.pid);
        }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.end();
    }
}

/// Releases a holder, if there is one.
pub(crate) fn release(holder: Option<Holder>) -> Result<(), Error> {
    holder.map_or(Ok(()), Holder::release)
}
