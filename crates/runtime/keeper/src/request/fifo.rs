//! Starts a container whose process waits in a fifo, as runc's does, without running runc's `start`.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;

use orlop_keeper_protocol::{Failure, FailureKind};
use rustix::fs::{FileType, Mode, OFlags, lstat, open};
use rustix::process::{Pid, Signal, kill_process};

use crate::connection::ReplyTo;
use crate::detached::{LettingGo, Word};
use crate::failure::failure;
use crate::keeper::Keeper;
use crate::reactor::{Interest, Source, Watch};

impl Keeper {
    /// Opens the fifo, which releases the container's process. Returns false if that has not happened and the runtime
    /// must be called. After a release, the runtime would wait forever.
    pub(super) fn let_go(
        &mut self,
        container: u64,
        path: &Path,
        to: ReplyTo,
    ) -> Result<bool, Failure> {
        if !self.open_for(container, path)? {
            return Ok(false);
        }
        // The container needs nothing more: its process already waits in the fifo or will find it open. If it was woken
        // on this processor, it confirms only after it has executed its program.
        let answer = self.started(container, Ok(()));
        self.reply(to, answer);
        self.fifo_ready(container, false);
        Ok(true)
    }

    /// Opens the start fifo on which the container's first process blocks until it is started. Returns false if the
    /// file is not a fifo.
    pub(super) fn open_for(&mut self, container: u64, path: &Path) -> Result<bool, Failure> {
        let Some(fifo) = open_fifo(path) else {
            return Ok(false);
        };
        let source = Source::StartFifo(container);
        let fifo = Watch::new(&self.reactor, fifo, source, Interest::Read);
        // Without a reader the process cannot write, and ends.
        let fifo = fifo.map_err(|error| {
            let message = format!("cannot wait for {}: {error}", path.display());
            failure(FailureKind::Failed, message)
        })?;
        let letting_go = LettingGo {
            fifo,
            path: path.to_owned(),
        };
        self.letting_go.insert(container, letting_go);
        Ok(true)
    }

    /// Handles a container's process that has opened its fifo or written to it or, if `closed`, has closed it.
    pub(crate) fn fifo_ready(&mut self, container: u64, closed: bool) {
        let Some(waiting) = self.letting_go.get(&container) else {
            return;
        };
        match waiting.listen() {
            Word::Nothing if !closed => {}
            // If the process has ended instead, its exit is reported.
            Word::Gone | Word::Nothing => self.went(container),
            Word::Never(error) => self.cannot_go(container, &error.to_string()),
        }
    }

    /// Kills a container that cannot go on, because the client was told that it runs.
    fn cannot_go(&mut self, container: u64, why: &str) {
        self.went(container);
        if let Some(container) = self.containers.get(&container)
            && container.is_alive()
            && let Some(pid) = Pid::from_raw(container.pid)
        {
            eprintln!("orlop-keeper: killing container {}: {why}", container.id);
            let _ = kill_process(pid, Signal::KILL);
        }
    }

    /// Handles a released container whose process goes on or has ended.
    pub(crate) fn went(&mut self, container: u64) {
        if let Some(LettingGo { path, .. }) = self.letting_go.remove(&container) {
            // runc knows by the missing fifo that the container runs.
            let _ = fs::remove_file(path);
        }
    }
}

fn open_fifo(path: &Path) -> Option<OwnedFd> {
    // Before the open, because the process removes itself from the fifo once it is open.
    let look = lstat(path).ok()?;
    if FileType::from_raw_mode(look.st_mode) != FileType::Fifo {
        return None;
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    open(path, flags, Mode::empty()).ok()
}
