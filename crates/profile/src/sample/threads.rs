//! The clocks of all threads of a process.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use super::event::Event;
use super::record::{Sample, read};
use crate::Error;
use crate::text::plain;

/// How often there is a look for new threads.
const PAUSE: Duration = Duration::from_millis(100);

/// Threads that are sampled at once: each takes a megabyte of the kernel's memory.
const MOST: usize = 256;

/// A process whose threads are sampled.
#[derive(Debug)]
pub(crate) struct Threads {
    pid: u32,
    frequency: u32,
    pub(crate) with_kernel: bool,
    events: HashMap<i32, Event>,
    /// Names that threads had when they were found.
    pub(crate) names: HashMap<u32, String>,
    looked: Instant,
    records: Vec<u8>,
    /// Samples that the kernel had no room for.
    pub(crate) lost: u64,
    /// Threads that were too many.
    pub(crate) left_out: usize,
}

impl Threads {
    /// Begins to sample each thread.
    pub(crate) fn of(pid: u32, frequency: u32) -> Result<Self, Error> {
        let mut threads = Self {
            pid,
            frequency,
            with_kernel: true,
            events: HashMap::new(),
            names: HashMap::new(),
            looked: Instant::now(),
            records: Vec::new(),
            lost: 0,
            left_out: 0,
        };
        threads.look()?;
        Ok(threads)
    }

    /// Hands each new sample on. False when the process has ended.
    pub(crate) fn read(&mut self, mut on: impl FnMut(Sample<'_>)) -> Result<bool, Error> {
        for event in self.events.values_mut() {
            self.records.clear();
            event.drain(&mut self.records);
            self.lost += read(&self.records, &mut on);
        }
        if self.looked.elapsed() > PAUSE {
            self.looked = Instant::now();
            self.look()?;
        }
        Ok(!self.events.is_empty())
    }

    /// Begins with threads that are new, and ends with those that have ended.
    fn look(&mut self) -> Result<(), Error> {
        let found = match ids(self.pid) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.events.is_empty() => {
                return Err(Error::NoProcess(self.pid));
            }
            // It has ended while it was looked at: what was seen counts.
            Err(_) => Vec::new(),
        };
        let ended = |id: &i32| !found.contains(id);
        let ended: Vec<i32> = self.events.keys().copied().filter(ended).collect();
        self.left_out = 0;
        for id in &found {
            if self.events.contains_key(id) {
                continue;
            }
            if self.events.len() >= MOST {
                self.left_out += 1;
                continue;
            }
            match self.open(*id) {
                Ok(event) => {
                    self.events.insert(*id, event);
                    self.names.insert(id.unsigned_abs(), name(self.pid, *id));
                }
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(error) => return Err(refused(self.pid, error)),
            }
        }
        for id in ended {
            self.events.remove(&id);
        }
        Ok(())
    }

    /// Of what the kernel does nothing is sampled where it does not allow that.
    fn open(&mut self, id: i32) -> io::Result<Event> {
        let opened = Event::open(id, self.frequency, self.with_kernel);
        match opened {
            Err(error) if self.with_kernel && is_forbidden(&error) => {
                let event = Event::open(id, self.frequency, false)?;
                self.with_kernel = false;
                Ok(event)
            }
            opened => opened,
        }
    }
}

fn ids(pid: u32) -> io::Result<Vec<i32>> {
    let mut ids = Vec::new();
    for entry in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let name = entry?.file_name();
        ids.extend(name.to_str().and_then(|name| name.parse::<i32>().ok()));
    }
    Ok(ids)
}

fn name(pid: u32, thread: i32) -> String {
    let name = orlop_disk::read_kernel_file(format!("/proc/{pid}/task/{thread}/comm"));
    let name = plain(String::from_utf8_lossy(&name.unwrap_or_default()).trim_end());
    if name.is_empty() {
        thread.to_string()
    } else {
        name
    }
}

fn is_forbidden(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM))
}

/// Why the kernel gives no clock.
fn refused(pid: u32, error: io::Error) -> Error {
    let level = orlop_disk::read_kernel_text("/proc/sys/kernel/perf_event_paranoid");
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => Error::Forbidden {
            pid,
            level: level.ok().and_then(|level| level.trim().parse().ok()),
            source: error,
        },
        Some(libc::ENOSYS | libc::ENOENT | libc::EOPNOTSUPP | libc::EINVAL) => {
            Error::Unknown(error)
        }
        _ => Error::Kernel {
            what: "cannot sample the process (perf_event_open)",
            source: error,
        },
    }
}
