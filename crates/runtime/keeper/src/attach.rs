//! Attachments: clients that read a container's output or write to its input.
//!
//! A client receives all output that the container writes while it is attached. Each client has a buffer. If the buffer
//! is full, the container waits for the client, but only for a short time if the client reads nothing. After that the
//! keeper detaches the client and closes its streams.

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::time::Instant;

use rustix::io::Errno;
use rustix::termios::SpecialCodeIndex;

use crate::keeper::Keeper;
use crate::reactor::{Interest, Ready, Stream};

impl Keeper {
    /// Passes output on to all followers of the stream.
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

    /// Returns whether a container has to wait for one of its followers.
    pub(crate) fn is_waited_for(&self, container: u64) -> bool {
        let mut attachments = self.attachments.values();
        attachments.any(|it| it.container == container && it.is_late())
    }

    /// Detaches followers whose containers have waited long enough, and other stuck followers of them. Otherwise
    /// many stuck followers would delay a container one after the other.
    pub(crate) fn late_followers(&mut self, now: Instant) {
        let late = self.attachments.values();
        let late = late.filter(|attachment| attachment.is_due(now));
        let freed: BTreeSet<u64> = late.map(|attachment| attachment.container).collect();
        self.attachments.retain(|_, attachment| {
            let has_waited = freed.contains(&attachment.container);
            if has_waited && attachment.is_to_go(now) {
                // A client that misses output must notice: it loses both streams.
                attachment.out = None;
                attachment.err = None;
            }
            !attachment.is_over()
        });
        for container in freed {
            self.read_or_wait(container);
        }
    }

    /// Ends the followers of an output that has ended, once they have caught up.
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

    /// Handles a follower that accepts more output or has closed its stream.
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

    /// Reads input for a container from an attachment, or handles the end of that input.
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

    /// Handles a container's standard input that accepts more data or was closed by its reader.
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

    /// Writes the pending input of a container, and reads more only when that is done.
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

/// Types the terminal's end-of-file character, because a terminal cannot be closed from one side.
fn end_of_file(terminal: impl AsFd) {
    if let Ok(settings) = rustix::termios::tcgetattr(&terminal) {
        let character = settings.special_codes[SpecialCodeIndex::VEOF];
        let _ = rustix::io::write(&terminal, &[character]);
    }
}
