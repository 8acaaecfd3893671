//! A client that is attached to a container, and the input of the container.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::reactor::{Interest, Stream, Watch};

/// How many bytes a watcher may be behind before the container has to wait for it.
const BEHIND_MAX: usize = 1 << 20;

/// How long a container waits for a watcher before that is let go.
const PATIENCE: Duration = Duration::from_secs(1);

/// Somebody attached to a container.
#[derive(Debug)]
pub(crate) struct Attachment {
    pub(crate) container: u64,
    pub(crate) stdin: Option<Watch>,
    pub(crate) out: Option<Follower>,
    pub(crate) err: Option<Follower>,
}

/// Somebody who reads one of a container's outputs, perhaps slowly.
#[derive(Debug)]
pub(crate) struct Follower {
    watch: Watch,
    behind: VecDeque<u8>,
    /// Until when the container waits for it, while it is too far behind.
    late_until: Option<Instant>,
    /// When it last took something, or began to be behind.
    moved: Instant,
    /// Whether there will be no more: it ends once it has caught up.
    pub(crate) last: bool,
    /// Whether the container waits for it as long as it takes.
    patient: bool,
}

/// A container's standard input.
#[derive(Debug)]
pub(crate) struct Input {
    pub(crate) watch: Watch,
    pub(crate) waiting: Vec<u8>,
    /// Whether to close it once what waits is written.
    pub(crate) closing: bool,
}

impl Attachment {
    /// Whether nothing of it is left.
    pub(crate) fn is_over(&self) -> bool {
        self.stdin.is_none() && self.out.is_none() && self.err.is_none()
    }

    /// Until when the container waits for it.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let followers = self.out.iter().chain(&self.err);
        let impatient = followers.filter(|follower| !follower.patient);
        impatient.filter_map(|follower| follower.late_until).min()
    }

    /// Whether its container has waited for it long enough.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.deadline().is_some_and(|deadline| deadline <= now)
    }

    /// Whether its container has waited for it long enough, or would have to next.
    pub(crate) fn is_to_go(&self, now: Instant) -> bool {
        let mut followers = self.out.iter().chain(&self.err);
        self.is_due(now) || followers.any(|follower| follower.is_stuck(now))
    }

    /// Whether its container waits for it.
    pub(crate) fn is_late(&self) -> bool {
        let mut followers = self.out.iter().chain(&self.err);
        followers.any(|follower| follower.late_until.is_some())
    }

    /// Who reads this output.
    pub(crate) fn follower(&mut self, stream: Stream) -> &mut Option<Follower> {
        match stream {
            Stream::Out => &mut self.out,
            Stream::Err => &mut self.err,
        }
    }
}

impl Follower {
    pub(crate) fn new(watch: Watch, patient: bool) -> Self {
        Self {
            watch,
            behind: VecDeque::new(),
            late_until: None,
            moved: Instant::now(),
            last: false,
            patient,
        }
    }

    /// Passes output on; `false` if it is to be let go.
    pub(crate) fn feed(&mut self, mut bytes: &[u8]) -> bool {
        if self.behind.is_empty() {
            match rustix::io::write(&self.watch, bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => return false,
            }
        }
        if !bytes.is_empty() {
            if self.behind.is_empty() {
                self.moved = Instant::now();
            }
            self.behind.extend(bytes);
            self.watch.set(Interest::Write);
        }
        if self.behind.len() > BEHIND_MAX && self.late_until.is_none() {
            self.late_until = Some(Instant::now() + PATIENCE);
        }
        true
    }

    /// Whether it took nothing while its container waited for another long enough: it would have to wait for
    /// this one too, sooner or later.
    pub(crate) fn is_stuck(&self, now: Instant) -> bool {
        !self.patient
            && !self.behind.is_empty()
            && now.saturating_duration_since(self.moved) >= PATIENCE
    }

    /// Catches up as far as the reader allows; `false` if it is to be let go.
    pub(crate) fn catch_up(&mut self) -> bool {
        while !self.behind.is_empty() {
            let (next, _) = self.behind.as_slices();
            match rustix::io::write(&self.watch, next) {
                Ok(count) => {
                    self.behind.drain(..count);
                    self.moved = Instant::now();
                }
                Err(Errno::AGAIN | Errno::INTR) => break,
                Err(_) => return false,
            }
        }
        if self.behind.len() <= BEHIND_MAX / 2 {
            self.late_until = None;
        }
        if !self.behind.is_empty() {
            return true;
        }
        self.behind = VecDeque::new();
        self.watch.set(Interest::Nothing);
        !self.last
    }
}

impl Input {
    pub(crate) fn new(watch: Watch) -> Self {
        Self {
            watch,
            waiting: Vec::new(),
            closing: false,
        }
    }

    /// Writes what waits; `false` if there is nothing to write to any more.
    pub(crate) fn flush(&mut self) -> bool {
        let mut done = 0;
        let open = loop {
            if done == self.waiting.len() {
                break true;
            }
            match rustix::io::write(&self.watch, &self.waiting[done..]) {
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break true,
                Err(_) => break false,
            }
        };
        self.waiting.drain(..done);
        if self.waiting.is_empty() {
            self.waiting = Vec::new();
            self.watch.set(Interest::Nothing);
        } else {
            self.watch.set(Interest::Write);
        }
        open
    }
}
