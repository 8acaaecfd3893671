//! The thread that writes logs, so that a slow disk blocks only this thread.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use rustix::event::{EventfdFlags, eventfd};

use super::file::Place;

/// Enough for the few calls that the thread makes.
const STACK: usize = 64 * 1024;

/// A write job. At most one per log is in progress, which bounds the queue.
#[derive(Debug)]
pub(super) struct Job {
    /// The key of the log's container.
    pub(super) key: u64,
    /// The file to write to.
    pub(super) file: File,
    /// The bytes to write.
    pub(super) data: Vec<u8>,
    /// The file to open afterwards, if the log is to be reopened.
    pub(super) reopen: Option<Place>,
}

/// The result of a job.
#[derive(Debug)]
pub(crate) struct Report {
    /// The key of the log's container.
    pub(crate) key: u64,
    pub(super) file: File,
    pub(super) data: Vec<u8>,
    pub(super) written: usize,
    pub(super) error: Option<io::Error>,
    /// The size of the newly opened file.
    pub(super) reopened: Option<io::Result<u64>>,
}

/// The keeper's handle of the writer thread.
#[derive(Debug)]
pub(crate) struct Writer {
    jobs: Sender<Job>,
    reports: Receiver<Report>,
}

impl Writer {
    /// Starts the thread; the descriptor becomes readable when there are reports.
    pub(crate) fn start() -> io::Result<(Self, OwnedFd)> {
        let readable = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let wake = readable.try_clone()?;
        let (jobs, queue) = channel();
        let (results, reports) = channel();
        thread::Builder::new()
            .name("log".into())
            .stack_size(STACK)
            .spawn(move || work(&queue, &results, &wake))?;
        Ok((Self { jobs, reports }, readable))
    }

    pub(super) fn submit(&self, job: Job) -> Result<(), Job> {
        self.jobs.send(job).map_err(|error| error.0)
    }

    /// Returns the next report, if there is one.
    pub(crate) fn report(&self) -> Option<Report> {
        self.reports.try_recv().ok()
    }
}

fn work(queue: &Receiver<Job>, results: &Sender<Report>, wake: &OwnedFd) {
    while let Ok(job) = queue.recv() {
        if results.send(carry_out(job)).is_err() {
            return;
        }
        // If the counter is full, a wake-up is due anyway.
        let _ = rustix::io::write(wake.as_fd(), &1u64.to_ne_bytes());
    }
}

fn carry_out(job: Job) -> Report {
    let Job {
        key,
        mut file,
        data,
        reopen,
    } = job;
    let mut written = 0;
    let mut error = None;
    while written < data.len() {
        match file.write(&data[written..]) {
            Ok(0) => {
                error = Some(io::ErrorKind::WriteZero.into());
                break;
            }
            Ok(count) => written += count,
            Err(failure) if failure.kind() == io::ErrorKind::Interrupted => {}
            Err(failure) => {
                error = Some(failure);
                break;
            }
        }
    }
    let reopened = reopen.map(|place| {
        file = place.open()?;
        Ok(file.metadata()?.len())
    });
    Report {
        key,
        file,
        data,
        written,
        error,
        reopened,
    }
}
