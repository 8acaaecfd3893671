//! Attachments: whoever watches a container's output or writes to its input.
//!
//! A watcher gets all that is written while it is attached. One that is slow has a buffer; when
//! that is full the container waits for it, but not for long if it makes no progress: then the
//! watcher is let go, and sees the end of its streams.

use std::collections::{BTreeSet, VecDeque};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::termios::SpecialCodeIndex;

use crate::keeper::Keeper;
use crate::reactor::{Interest, Ready, Stream, Watch};

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
    last: bool,
    /// Whether the container waits for it as long as it takes.
    patient: bool,
}

/// A container's standard input.
#[derive(Debug)]
pub(crate) struct Input {
    watch: Watch,
    waiting: Vec<u8>,
    /// Whether to close it once what waits is written.
    closing: bool,
}

impl Attachment {
    fn is_over(&self) -> bool {
        self.stdin.is_none() && self.out.is_none() && self.err.is_none()
    }

    /// Until when the container waits for it.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let followers = self.out.iter().chain(&self.err);
        let impatient = followers.filter(|follower| !follower.patient);
        impatient.filter_map(|follower| follower.late_until).min()
    }

    /// Whether its container has waited for it long enough.
    fn is_due(&self, now: Instant) -> bool {
        self.deadline().is_some_and(|deadline| deadline <= now)
    }

    /// Whether its container has waited for it long enough, or would have to next.
    fn is_to_go(&self, now: Instant) -> bool {
        let mut followers = self.out.iter().chain(&self.err);
        self.is_due(now) || followers.any(|follower| follower.is_stuck(now))
    }

    fn is_late(&self) -> bool {
        let mut followers = self.out.iter().chain(&self.err);
        followers.any(|follower| follower.late_until.is_some())
    }

    fn follower(&mut self, stream: Stream) -> &mut Option<Follower> {
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
    fn feed(&mut self, mut bytes: &[u8]) -> bool {
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
    fn is_stuck(&self, now: Instant) -> bool {
        !self.patient
            && !self.behind.is_empty()
            && now.saturating_duration_since(self.moved) >= PATIENCE
    }

    /// Catches up as far as the reader allows; `false` if it is to be let go.
    fn catch_up(&mut self) -> bool {
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
    fn flush(&mut self) -> bool {
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

impl Keeper {
    /// Passes output on to all who follow it.
    pub(crate) fn pass_on(&mut self, container: u64, stream: Stream, bytes: &[u8]) {
        self.attachments.retain(|_, attachment| {
            if attachment.container == container
                && let Some(follower) = attachment.follower(stream)
                && !follower.feed(bytes)
            {
                *attachment.follower(stream) = None;
            }
            !attachment.is_over()
        });
    }

    /// Whether a container has to wait for one of its watchers.
    pub(crate) fn is_waited_for(&self, container: u64) -> bool {
        let mut attachments = self.attachments.values();
        attachments.any(|it| it.container == container && it.is_late())
    }

    /// Lets go of the watchers that their containers have waited for long enough. Those that are stuck beside
    /// them go at the same time: many would hold a container up one after the other.
    pub(crate) fn late_followers(&mut self, now: Instant) {
        let late = self.attachments.values();
        let late = late.filter(|attachment| attachment.is_due(now));
        let freed: BTreeSet<u64> = late.map(|attachment| attachment.container).collect();
        self.attachments.retain(|_, attachment| {
            let has_waited = freed.contains(&attachment.container);
            if has_waited && attachment.is_to_go(now) {
                // One that misses something is better off knowing: it loses both streams.
                attachment.out = None;
                attachment.err = None;
            }
            !attachment.is_over()
        });
        for container in freed {
            self.read_or_wait(container);
        }
    }

    /// An output has ended: its followers do, once they have caught up.
    pub(crate) fn end_of_output(&mut self, container: u64, stream: Stream) {
        let none_left = self
            .containers
            .get(&container)
            .is_none_or(|it| it.out.is_none() && it.err.is_none());
        self.attachments.retain(|_, attachment| {
            if attachment.container == container {
                if let Some(follower) = attachment.follower(stream) {
                    follower.last = true;
                    if !follower.catch_up() {
                        *attachment.follower(stream) = None;
                    }
                }
                if none_left {
                    attachment.stdin = None;
                }
            }
            !attachment.is_over()
        });
    }

    /// A follower takes more, or is gone.
    pub(crate) fn attachment_listens(&mut self, key: u64, stream: Stream, ready: &Ready) {
        let Some(attachment) = self.attachments.get_mut(&key) else {
            return;
        };
        if let Some(follower) = attachment.follower(stream)
            && (ready.broken() || !follower.catch_up())
        {
            *attachment.follower(stream) = None;
        }
        let container = attachment.container;
        if attachment.is_over() {
            self.attachments.remove(&key);
        }
        self.read_or_wait(container);
    }

    /// An attachment has input for its container, or no more.
    pub(crate) fn attachment_speaks(&mut self, key: u64) {
        let mut scratch = self.take_scratch();
        let Some(attachment) = self.attachments.get_mut(&key) else {
            self.scratch = scratch;
            return;
        };
        let container_key = attachment.container;
        let read = attachment
            .stdin
            .as_ref()
            .map(|stdin| rustix::io::read(stdin, &mut *scratch));
        let mut ended = false;
        if let Some(container) = self.containers.get_mut(&container_key) {
            match read {
                None | Some(Err(Errno::AGAIN | Errno::INTR)) => {}
                Some(Ok(count)) if count > 0 => {
                    if let Some(input) = &mut container.input {
                        input.waiting.extend_from_slice(&scratch[..count]);
                    }
                }
                Some(_) => {
                    ended = true;
                    if container.stdin_once
                        && let Some(input) = &mut container.input
                    {
                        input.closing = true;
                    }
                }
            }
        }
        self.scratch = scratch;
        if ended && let Some(attachment) = self.attachments.get_mut(&key) {
            attachment.stdin = None;
            if attachment.is_over() {
                self.attachments.remove(&key);
            }
        }
        self.move_input(container_key);
    }

    /// A container's standard input takes more, or is closed by its reader.
    pub(crate) fn input_ready(&mut self, key: u64, ready: &Ready) {
        if let Some(container) = self.containers.get_mut(&key) {
            let waits = container
                .input
                .as_ref()
                .is_some_and(|input| !input.waiting.is_empty());
            if ready.broken() && !waits {
                container.input = None;
            }
        }
        self.move_input(key);
    }

    /// Writes what waits for a container's input, and lets more come only when that is done.
    fn move_input(&mut self, key: u64) {
        let Some(container) = self.containers.get_mut(&key) else {
            return;
        };
        let mut interest = Interest::Read;
        if let Some(input) = &mut container.input {
            let mut open = input.flush();
            if input.waiting.is_empty() {
                if input.closing {
                    if container.tty {
                        end_of_file(&input.watch);
                    }
                    open = false;
                }
            } else {
                interest = Interest::Nothing;
            }
            if !open {
                container.input = None;
            }
        }
        let closed = container.input.is_none();
        self.attachments.retain(|_, attachment| {
            if attachment.container == key {
                if closed {
                    attachment.stdin = None;
                } else if let Some(stdin) = &attachment.stdin {
                    stdin.set(interest);
                }
            }
            !attachment.is_over()
        });
    }
}

/// Types the terminal's end-of-file character: a terminal cannot be closed from one side.
fn end_of_file(terminal: impl AsFd) {
    if let Ok(settings) = rustix::termios::tcgetattr(&terminal) {
        let character = settings.special_codes[SpecialCodeIndex::VEOF];
        let _ = rustix::io::write(&terminal, &[character]);
    }
}
