//! Clients that are attached to a container, and the container's input.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::reactor::{Interest, Stream, Watch};

/// Limit of bytes that a follower may be behind before the container has to wait for it.
const BEHIND_MAX: usize = 1 << 20;

/// Time that a container waits for a follower before the follower is detached.
const PATIENCE: Duration = Duration::from_secs(1);

/// A client attached to a container.
#[derive(Debug)]
pub(crate) struct Attachment {
    pub(crate) container: u64,
    pub(crate) stdin: Option<Watch>,
    pub(crate) out: Option<Follower>,
    pub(crate) err: Option<Follower>,
}

/// A client that reads one of a container's outputs, possibly slowly.
#[derive(Debug)]
pub(crate) struct Follower {
    watch: Watch,
    behind: VecDeque<u8>,
    /// Deadline until which the container waits for this follower, if it is too far behind.
    late_until: Option<Instant>,
    /// When it last accepted bytes or began to be behind.
    moved: Instant,
    /// Whether the output has ended: the follower ends once it has caught up.
    pub(crate) last: bool,
    /// Whether the container waits for this follower without a time limit.
    patient: bool,
}

/// A container's standard input.
#[derive(Debug)]
pub(crate) struct Input {
    pub(crate) watch: Watch,
    pub(crate) waiting: Vec<u8>,
    /// Whether to close the input once the pending bytes are written.
    pub(crate) closing: bool,
}

impl Attachment {
    /// Returns whether none of its streams is left.
    pub(crate) fn is_over(&self) -> bool {
        self.stdin.is_none() && self.out.is_none() && self.err.is_none()
    }

    /// Returns the deadline until which the container waits for it.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let followers = self.out.iter().chain(&self.err);
        let impatient = followers.filter(|follower| !follower.patient);
        impatient.filter_map(|follower| follower.late_until).min()
    }

    /// Returns whether its container has waited for it long enough.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.deadline().is_some_and(|deadline| deadline <= now)
    }

    /// Returns whether its container has waited for it long enough, or would have to wait for it next.
    pub(crate) fn is_to_go(&self, now: Instant) -> bool {
        let mut followers = self.out.iter().chain(&self.err);
        self.is_due(now) || followers.any(|follower| follower.is_stuck(now))
    }

    /// Returns whether its container waits for it.
    pub(crate) fn is_late(&self) -> bool {
        let mut followers = self.out.iter().chain(&self.err);
        followers.any(|follower| follower.late_until.is_some())
    }

    /// Returns the follower of this output.
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

    /// Passes output on; `false` if the follower is to be detached.
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

    /// Returns whether it accepted nothing for as long as a container waits: the container would have to wait for this
    /// follower too.
    pub(crate) fn is_stuck(&self, now: Instant) -> bool {
        !self.patient
            && !self.behind.is_empty()
            && now.saturating_duration_since(self.moved) >= PATIENCE
    }

    /// Writes the buffered bytes as far as the reader accepts them; `false` if the follower is to be detached.
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

    /// Writes pending bytes; `false` if the input is closed.
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
