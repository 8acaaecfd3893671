//! Watch on the configuration directories.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};

use crate::store::Store;

/// A thread that reads directories again when something in them changes. It ends when this value is dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

/// Delay after a change: editors write in several steps.
const SETTLE: Duration = Duration::from_millis(30);

/// Interval of reading a directory that cannot be watched, because it is missing or the kernel's inotify limit is
/// reached.
const RETRY: Duration = Duration::from_secs(10);

impl Watch {
    pub(crate) fn start(dirs: Vec<PathBuf>, store: &Arc<Store>) -> io::Result<Self> {
        let open = || inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK);
        Self::start_with(dirs, store, open, RETRY)
    }

    fn start_with(
        dirs: Vec<PathBuf>,
        store: &Arc<Store>,
        open: Open,
        retry: Duration,
    ) -> io::Result<Self> {
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let mut watcher = Watcher {
            dirs,
            inotify: None,
            open,
            retry,
            told: false,
            stop: Arc::clone(&stop),
            store: Arc::downgrade(store),
        };
        // Before the caller reads the directories, so that no change is lost in between.
        let complete = watcher.add_watches();
        let thread = std::thread::Builder::new()
            .name("orlop-cni-watch".to_owned())
            .spawn(move || watcher.run(complete))?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = rustix::io::write(&*self.stop, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Creates an inotify instance. All processes of root, including those in containers, share a limit, which one
/// process can exhaust.
type Open = fn() -> rustix::io::Result<OwnedFd>;

struct Watcher {
    dirs: Vec<PathBuf>,
    /// The inotify instance; `None` until one is available.
    inotify: Option<OwnedFd>,
    open: Open,
    retry: Duration,
    told: bool,
    stop: Arc<OwnedFd>,
    store: Weak<Store>,
}

impl Watcher {
    fn run(&mut self, mut complete: bool) {
        loop {
            let timeout = if complete { None } else { Some(self.retry) };
            match self.wait(timeout) {
                Ok(Woken::Stop) => return,
                Ok(Woken::Changed) => std::thread::sleep(SETTLE),
                Ok(Woken::TimedOut) => {}
                Err(error) => {
                    tracing::error!(%error, "can no longer watch the network configuration");
                    return;
                }
            }
            self.discard_events();
            complete = self.add_watches();
            let Some(store) = self.store.upgrade() else {
                return;
            };
            for dir in &self.dirs {
                store.reload(dir);
            }
        }
    }

    /// Watches each directory, and its subdirectories with plugin configurations; a repeated watch is not an error.
    /// Returns `false` if a directory is missing or cannot be watched.
    fn add_watches(&mut self) -> bool {
        if self.inotify.is_none() {
            match (self.open)() {
                Ok(inotify) => self.inotify = Some(inotify),
                Err(error) => self.tell(error),
            }
        }
        let Some(inotify) = &self.inotify else {
            return false;
        };
        let mut complete = true;
        for dir in &self.dirs {
            complete &= watch(inotify, dir);
            for inner in std::fs::read_dir(dir).into_iter().flatten().flatten() {
                if inner.file_type().is_ok_and(|kind| kind.is_dir()) {
                    watch(inotify, &inner.path());
                }
            }
        }
        complete
    }

    /// Logs once why the thread polls instead of watching.
    fn tell(&mut self, why: rustix::io::Errno) {
        if !std::mem::replace(&mut self.told, true) {
            let every = self.retry;
            tracing::warn!(error = %why, ?every, "cannot watch the network configuration; reading it periodically");
        }
    }

    fn wait(&self, timeout: Option<Duration>) -> io::Result<Woken> {
        let mut fds = vec![PollFd::new(&*self.stop, PollFlags::IN)];
        let watched = self.inotify.as_ref();
        fds.extend(watched.map(|inotify| PollFd::new(inotify, PollFlags::IN)));
        let timeout = timeout
            .map(Timespec::try_from)
            .transpose()
            .map_err(io::Error::other)?;
        loop {
            match poll(&mut fds, timeout.as_ref()) {
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
                Ok(0) => return Ok(Woken::TimedOut),
                Ok(_) if !fds[0].revents().is_empty() => return Ok(Woken::Stop),
                Ok(_) => return Ok(Woken::Changed),
            }
        }
    }

    /// Discards the events: everything is read again anyway.
    fn discard_events(&self) {
        let mut buffer = [MaybeUninit::<u8>::uninit(); 4096];
        let Some(inotify) = &self.inotify else {
            return;
        };
        let mut reader = inotify::Reader::new(inotify, &mut buffer);
        while let Ok(event) = reader.next() {
            if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                tracing::debug!(
                    "too many changes of the network configuration; some events were lost"
                );
            }
        }
    }
}

fn watch(inotify: &OwnedFd, dir: &Path) -> bool {
    let events = WatchFlags::CLOSE_WRITE
        | WatchFlags::MOVED_TO
        | WatchFlags::MOVED_FROM
        | WatchFlags::DELETE
        | WatchFlags::CREATE
        | WatchFlags::DELETE_SELF
        | WatchFlags::MOVE_SELF
        | WatchFlags::ONLYDIR;
    inotify::add_watch(inotify, dir, events).is_ok()
}

enum Woken {
    Stop,
    Changed,
    TimedOut,
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Instant;

    use rustix::io::Errno;

    use super::*;

    #[test]
    fn a_directory_is_read_where_a_container_holds_all_watches_and_watched_once_it_does_not() {
        static HELD: AtomicBool = AtomicBool::new(true);
        let open: Open = || {
            if HELD.load(Ordering::Relaxed) {
                return Err(Errno::MFILE);
            }
            inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)
        };
        let scratch = orlop_testkit::Scratch::new();
        let dir = scratch.path("conf");
        std::fs::create_dir(&dir).unwrap();
        let store = Arc::new(Store::default());
        let retry = Duration::from_millis(50);
        let _watch = Watch::start_with(vec![dir.clone()], &store, open, retry).unwrap();
        assert_eq!(store.get(&dir).networks.len(), 0);
        let configure = |name: &str| {
            let text = format!(
                r#"{{"cniVersion": "1.0.0", "name": "{name}", "plugins": [{{"type": "bridge"}}]}}"#
            );
            std::fs::write(dir.join(format!("{name}.conflist")), text).unwrap();
        };
        let known = |count: usize| {
            let end = Instant::now() + Duration::from_secs(20);
            while store.get(&dir).networks.len() != count {
                assert!(Instant::now() < end, "{count} are not known");
                std::thread::sleep(Duration::from_millis(10));
            }
        };
        configure("late");
        known(1);
        HELD.store(false, Ordering::Relaxed);
        configure("later");
        known(2);
        // Polling stops from here on.
        configure("last");
        known(3);
    }
}
