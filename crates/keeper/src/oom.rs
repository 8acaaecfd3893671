//! Watching a container's cgroup for the OOM killer.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::rc::Rc;

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::inotify;

use crate::reactor::{Interest, Reactor, Source, Watch};

/// The kernel's count of OOM kills in one cgroup.
#[derive(Debug)]
pub(crate) struct OomWatch {
    counter: File,
    /// Tells of version 1's; version 2's are told through the shared inotify instance.
    eventfd: Option<Watch>,
    seen: u64,
}

impl OomWatch {
    /// Watches the cgroup in `dir`, for the container `key`. `inotify` is shared by all and made
    /// for the first that needs it.
    pub(crate) fn new(
        dir: &Path,
        key: u64,
        reactor: &Rc<Reactor>,
        inotify: &mut Option<Watch>,
    ) -> io::Result<Self> {
        let v1 = dir.join("memory.oom_control");
        if v1.exists() {
            let counter = File::open(v1)?;
            let readable = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
            let order = format!("{} {}", readable.as_raw_fd(), counter.as_raw_fd());
            fs::write(dir.join("cgroup.event_control"), order)?;
            let source = Source::OomEventfd(key);
            let watch = Watch::new(reactor, readable, source, Interest::Read)?;
            return Ok(Self::started(counter, Some(watch)));
        }
        let v2 = dir.join("memory.events");
        let counter = File::open(&v2)?;
        if inotify.is_none() {
            let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
            let fd: OwnedFd = inotify::init(flags)?;
            *inotify = Some(Watch::new(reactor, fd, Source::OomInotify, Interest::Read)?);
        }
        if let Some(inotify) = inotify {
            inotify::add_watch(&*inotify, &v2, inotify::WatchFlags::MODIFY)?;
        }
        Ok(Self::started(counter, None))
    }

    fn started(counter: File, eventfd: Option<Watch>) -> Self {
        let mut watch = Self {
            counter,
            eventfd,
            seen: 0,
        };
        watch.seen = watch.read().unwrap_or(0);
        watch
    }

    /// Takes note of the notification.
    pub(crate) fn acknowledge(&self) {
        if let Some(eventfd) = &self.eventfd {
            let _ = rustix::io::read(eventfd, &mut [0; 8]);
        }
    }

    /// How many kills there have been since the last look.
    pub(crate) fn news(&mut self) -> u64 {
        // A cgroup that is gone has nothing new to say.
        let now = self.read().unwrap_or(self.seen);
        let news = now.saturating_sub(self.seen);
        self.seen = now;
        news
    }

    fn read(&self) -> Option<u64> {
        let mut bytes = [0; 512];
        let count = self.counter.read_at(&mut bytes, 0).ok()?;
        let text = std::str::from_utf8(&bytes[..count]).ok()?;
        text.lines()
            .find_map(|line| line.strip_prefix("oom_kill "))?
            .trim()
            .parse()
            .ok()
    }
}
