//! Detects changes in a directory.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::inotify;
use tokio::io::unix::AsyncFd;

/// An inotify watch of a directory.
#[derive(Debug)]
pub(super) struct Watch {
    fd: AsyncFd<OwnedFd>,
}

impl Watch {
    pub(super) fn open(directory: &Path) -> io::Result<Self> {
        use inotify::{CreateFlags, WatchFlags};
        let fd = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let events = WatchFlags::CREATE
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::MOVED_TO
            | WatchFlags::MOVED_FROM
            | WatchFlags::DELETE
            | WatchFlags::ATTRIB
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        inotify::add_watch(&fd, directory, events)?;
        Ok(Self {
            // SAFETY: an `OwnedFd` holds the same open descriptor from its creation to its drop.
            fd: unsafe { AsyncFd::register(fd) }.map_err(io::Error::from)?,
        })
    }

    /// Waits for a change; `false` if the directory itself is gone.
    pub(super) async fn changed(&mut self) -> io::Result<bool> {
        loop {
            let mut ready = self.fd.readable().await?;
            match drain(ready.get_inner()) {
                Ok(there) => return Ok(there),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
                Err(error) => return Err(error),
            }
        }
    }

    /// Discards the events until now; `false` if the directory itself is gone.
    pub(super) fn forget(&self) -> bool {
        drain(self.fd.get_ref()).unwrap_or(true)
    }
}

/// Reads all pending events; the error is `WouldBlock` if there are none.
fn drain(fd: &OwnedFd) -> io::Result<bool> {
    use inotify::ReadFlags;
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut reader = inotify::Reader::new(fd, &mut buffer);
    let mut any = false;
    let mut there = true;
    loop {
        match reader.next() {
            Ok(event) => {
                any = true;
                let gone = ReadFlags::DELETE_SELF
                    | ReadFlags::MOVE_SELF
                    | ReadFlags::IGNORED
                    | ReadFlags::UNMOUNT;
                there &= !event.events().intersects(gone);
            }
            Err(rustix::io::Errno::AGAIN) if any => return Ok(there),
            Err(error) => return Err(error.into()),
        }
    }
}
