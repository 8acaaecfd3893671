//! Notifications when memory runs out in a cgroup.

use std::fs::{self, File};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, PollFlags, eventfd};

use crate::{Cgroup, Error};

/// A descriptor that becomes ready when memory runs out.
///
/// The counts are in the cgroup's files: [`StatsReader::oom`](crate::StatsReader). The descriptor also becomes ready
/// when the cgroup is removed.
#[derive(Debug)]
pub struct OomWatch {
    ready: OwnedFd,
    interest: PollFlags,
    /// Version 1 ends the watch when this is closed.
    _control: Option<File>,
}

impl OomWatch {
    /// Watches a cgroup.
    pub fn new(cgroup: &Cgroup) -> Result<Self, Error> {
        let directory = cgroup
            .directory("memory")
            .ok_or(Error::NoController("memory"))?;
        if cgroup.hierarchies().is_v2() {
            let path = directory.join("memory.events");
            let events = File::open(&path).map_err(Error::io("opening", path))?;
            let ready = OwnedFd::from(events);
            return Ok(Self {
                ready,
                interest: PollFlags::PRI,
                _control: None,
            });
        }
        let path = directory.join("memory.oom_control");
        let control = File::open(&path).map_err(Error::io("opening", path))?;
        let register = directory.join("cgroup.event_control");
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let ready =
            eventfd(0, flags).map_err(|error| Error::io("watching", &directory)(error.into()))?;
        let text = format!("{} {}", ready.as_raw_fd(), control.as_raw_fd());
        fs::write(&register, text).map_err(Error::io("writing", register))?;
        Ok(Self {
            ready,
            interest: PollFlags::IN,
            _control: Some(control),
        })
    }

    /// Returns the event to poll for: a priority event with version 2, readable with version 1.
    pub fn interest(&self) -> PollFlags {
        self.interest
    }

    /// Resets the notification, so that the next wait is for the next event.
    pub fn clear(&self) {
        let mut buffer = [0u8; 8];
        if self.interest == PollFlags::IN {
            let _ = rustix::io::read(&self.ready, &mut buffer);
        } else {
            let _ = rustix::io::pread(&self.ready, &mut buffer, 0);
        }
    }
}

impl AsFd for OomWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }
}
