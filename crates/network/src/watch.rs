//! Watching configuration directories.

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

/// A thread that reads directories anew when something in them changes; it
/// ends with this value.
#[derive(Debug)]
pub(crate) struct Watch {
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

/// Writers write in several steps: wait for the last one.
const SETTLE: Duration = Duration::from_millis(30);

/// How often a directory that is not there is looked for.
const RETRY: Duration = Duration::from_secs(10);

impl Watch {
    pub(crate) fn start(dirs: Vec<PathBuf>, store: &Arc<Store>) -> io::Result<Self> {
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let mut watcher = Watcher {
            dirs,
            inotify,
            stop: Arc::clone(&stop),
            store: Arc::downgrade(store),
        };
        // Before the caller reads the directories: no change falls in between.
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

struct Watcher {
    dirs: Vec<PathBuf>,
    inotify: OwnedFd,
    stop: Arc<OwnedFd>,
    store: Weak<Store>,
}

impl Watcher {
    fn run(&mut self, mut complete: bool) {
        loop {
            let timeout = if complete { None } else { Some(RETRY) };
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

    /// Watches each directory, and the ones inside it that hold plugins;
    /// watching one twice is no error. `false` if one is not there.
    fn add_watches(&self) -> bool {
        let mut complete = true;
        for dir in &self.dirs {
            complete &= self.watch(dir);
            for inner in std::fs::read_dir(dir).into_iter().flatten().flatten() {
                if inner.file_type().is_ok_and(|kind| kind.is_dir()) {
                    self.watch(&inner.path());
                }
            }
        }
        complete
    }

    fn watch(&self, dir: &Path) -> bool {
        let events = WatchFlags::CLOSE_WRITE
            | WatchFlags::MOVED_TO
            | WatchFlags::MOVED_FROM
            | WatchFlags::DELETE
            | WatchFlags::CREATE
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        inotify::add_watch(&self.inotify, dir, events).is_ok()
    }

    fn wait(&self, timeout: Option<Duration>) -> io::Result<Woken> {
        let mut fds = [
            PollFd::new(&*self.stop, PollFlags::IN),
            PollFd::new(&self.inotify, PollFlags::IN),
        ];
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

    /// What changed does not matter: everything is read anew.
    fn discard_events(&self) {
        let mut buffer = [MaybeUninit::<u8>::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.inotify, &mut buffer);
        while let Ok(event) = reader.next() {
            if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                tracing::debug!("too many changes of the network configuration to tell apart");
            }
        }
    }
}

enum Woken {
    Stop,
    Changed,
    TimedOut,
}
