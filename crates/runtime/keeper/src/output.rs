//! Passes the output of containers to the log and to attached clients.

use rustix::io::Errno;

use orlop_keeper_protocol::{ContainerState, Done, FailureKind, LogDropped, OomKilled};

use crate::connection::ReplyTo;
use crate::failure::failure;
use crate::keeper::Keeper;
use crate::log::{Log, Report, Writer};
use crate::oom::OomWatch;
use crate::reactor::{Interest, Source, Stream, Watch};
use crate::text::keep_tail;

/// Maximum number of bytes that are read from a container that has ended. More must come from another process that
/// holds its streams open and keeps writing.
const LAST_WORDS_MAX: usize = 256 * 1024;

/// The result of reading an output.
enum Read {
    /// This many bytes.
    Some(usize),
    /// No bytes at the moment.
    Nothing,
    /// The end of the output.
    End,
}

impl Keeper {
    /// Handles output of a container.
    pub(crate) fn output_ready(&mut self, key: u64, stream: Stream) {
        if matches!(self.read_output(key, stream), Read::End) {
            self.output_ended(key, stream);
        }
        self.pump_log(key);
    }

    /// Reads the remaining output of a container that has ended.
    pub(crate) fn drain(&mut self, key: u64) {
        for stream in [Stream::Out, Stream::Err] {
            let mut total = 0;
            while total < LAST_WORDS_MAX {
                match self.read_output(key, stream) {
                    Read::Some(count) => total += count,
                    Read::Nothing => break,
                    Read::End => {
                        self.output_ended(key, stream);
                        break;
                    }
                }
            }
        }
        self.pump_log(key);
    }

    /// Reads the remaining output of a container and then closes it, even if another process holds it open.
    pub(crate) fn close_output(&mut self, key: u64) {
        self.drain(key);
        for stream in [Stream::Out, Stream::Err] {
            if let Some(container) = self.containers.get_mut(&key)
                && container.output(stream).is_some()
            {
                self.output_ended(key, stream);
            }
        }
        self.pump_log(key);
    }

    fn read_output(&mut self, key: u64, stream: Stream) -> Read {
        let mut scratch = self.take_scratch();
        let read = self.read_output_into(key, stream, &mut scratch);
        self.scratch = scratch;
        read
    }

    fn read_output_into(&mut self, key: u64, stream: Stream, scratch: &mut [u8]) -> Read {
        let Some(container) = self.containers.get_mut(&key) else {
            return Read::Nothing;
        };
        let Some(watch) = container.output(stream) else {
            return Read::Nothing;
        };
        let count = match rustix::io::read(&*watch, &mut *scratch) {
            // A terminal whose last user is gone fails with EIO.
            Ok(0) | Err(Errno::IO) => return Read::End,
            Ok(count) => count,
            Err(Errno::AGAIN | Errno::INTR) => return Read::Nothing,
            Err(_) => return Read::End,
        };
        let bytes = &scratch[..count];
        if container.state == ContainerState::Creating {
            keep_tail(&mut container.chatter, bytes);
            return Read::Some(count);
        }
        if let Some(log) = &mut container.log {
            log.feed(stream, bytes);
        }
        self.pass_on(key, stream, bytes);
        self.read_or_wait(key);
        Read::Some(count)
    }

    /// Reads more from a container, or makes it wait for its log or for a follower.
    pub(crate) fn read_or_wait(&mut self, key: u64) {
        let waits = self.is_waited_for(key);
        let Some(container) = self.containers.get(&key) else {
            return;
        };
        let has_room = container.log.as_ref().is_none_or(Log::has_room);
        let interest = if has_room && !waits {
            Interest::Read
        } else {
            Interest::Nothing
        };
        for watch in [&container.out, &container.err].into_iter().flatten() {
            watch.set(interest);
        }
    }

    fn output_ended(&mut self, key: u64, stream: Stream) {
        let Some(container) = self.containers.get_mut(&key) else {
            return;
        };
        *container.output(stream) = None;
        if let Some(log) = &mut container.log {
            log.finish(stream);
        }
        self.end_of_output(key, stream);
    }

    /// Starts the log writer, if the container is the first that has a log.
    pub(crate) fn have_writer(&mut self, key: u64) {
        let container = self.containers.get(&key);
        if self.writer.is_none() && container.is_some_and(|container| container.log.is_some()) {
            match Writer::start().and_then(|(writer, readable)| {
                let source = Source::LogWriter;
                let watch = Watch::new(&self.reactor, readable, source, Interest::Read)?;
                Ok((writer, watch))
            }) {
                Ok(writer) => self.writer = Some(writer),
                Err(error) => eprintln!("orlop-keeper: cannot start the log writer: {error}"),
            }
        }
    }

    /// Hands a container's pending log lines to the writer.
    pub(crate) fn pump_log(&mut self, key: u64) {
        self.have_writer(key);
        let container = self.containers.get_mut(&key);
        if let Some(log) = container.and_then(|container| container.log.as_mut())
            && let Some((writer, _)) = &self.writer
        {
            log.pump(key, writer);
        }
    }

    /// Handles finished jobs of the writer.
    pub(crate) fn logs_written(&mut self) {
        if let Some((_, watch)) = &self.writer {
            let _ = rustix::io::read(watch, &mut [0; 8]);
        }
        while let Some(report) = self.writer.as_ref().and_then(|(writer, _)| writer.report()) {
            let key = report.key;
            let Some(container) = self.containers.get_mut(&key) else {
                self.settle_lingering(report);
                continue;
            };
            let Some(log) = &mut container.log else {
                continue;
            };
            let settled = log.settle(report);
            let id = container.id.clone();
            if let Some((bytes, reason)) = settled.dropped {
                self.tell(&LogDropped {
                    container: id,
                    bytes,
                    reason,
                });
            }
            self.answer_reopened(settled.reopened);
            self.read_or_wait(key);
            self.pump_log(key);
            self.report_if_settled(key);
        }
    }

    /// Handles a finished job for the log of a removed container.
    fn settle_lingering(&mut self, report: Report) {
        let key = report.key;
        if let Some(log) = self.lingering.get_mut(&key)
            && let Some((writer, _)) = &self.writer
        {
            let settled = log.settle(report);
            log.pump(key, writer);
            if log.is_settled() {
                self.lingering.remove(&key);
            }
            self.answer_reopened(settled.reopened);
        }
    }

    fn answer_reopened(&mut self, reopened: Vec<(ReplyTo, Result<(), String>)>) {
        for (reply_to, result) in reopened {
            let answer = result
                .map(|()| Done {})
                .map_err(|message| failure(FailureKind::Failed, message));
            self.reply(reply_to, answer);
        }
    }

    /// Handles a cgroup that may have hit its memory limit.
    pub(crate) fn oom_suspected(&mut self, key: u64) {
        if let Some(oom) = self
            .containers
            .get(&key)
            .and_then(|container| container.oom.as_ref())
        {
            oom.acknowledge();
        }
        self.look_for_oom(key);
    }

    /// Reads a container's count of OOM kills and reports new ones.
    pub(crate) fn look_for_oom(&mut self, key: u64) {
        let Some(container) = self.containers.get_mut(&key) else {
            return;
        };
        let news = container.oom.as_mut().map_or(0, OomWatch::news);
        if news > 0 {
            container.oom_kills += news;
            let event = OomKilled {
                container: container.id.clone(),
                count: container.oom_kills,
            };
            self.tell(&event);
        }
    }
}
