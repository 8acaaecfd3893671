//! The event loop.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use orlop_keeper_protocol::{ACCEPT_AGAIN, FrameBuffer, SOCKET_NAME};
use rustix::fs::{AtFlags, unlinkat};

use crate::attachment::Attachment;
use crate::call::Call;
use crate::connection::Ended;
use crate::keeper::Keeper;
use crate::reactor::{Interest, Ready, Source};
use crate::sys::stack;

/// After this time without an event the keeper counts as idle and returns stack memory.
const REST: Duration = Duration::from_secs(1);

impl Keeper {
    /// Runs the event loop until the keeper is told to stop.
    pub(crate) fn run(mut self) -> ExitCode {
        let mut rested = false;
        loop {
            let limit = self
                .next_deadline()
                .map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let rest = (!rested).then_some(REST);
            let rests = rested || limit.is_none_or(|limit| REST <= limit);
            let happened = self.reactor.wait(limit.into_iter().chain(rest).min());
            rested = happened.is_empty() && rests;
            if rested {
                stack::give_back();
            }
            for ready in happened {
                if let Some(source) = self.reactor.source(&ready) {
                    self.happened(source, &ready);
                }
            }
            self.deadlines();
            if self.has_ended() {
                let _ = unlinkat(&self.pod.dir, SOCKET_NAME, AtFlags::empty());
                return ExitCode::SUCCESS;
            }
        }
    }

    // Separate from `run`, so that the stack used here can be given back while `run` waits.
    #[inline(never)]
    fn happened(&mut self, source: Source, ready: &Ready) {
        match source {
            Source::Children => self.children_ended(),
            Source::Listener => self.accept(),
            Source::Connection(key) => self.connection_ready(key, ready),
            Source::Output(key, stream) => self.output_ready(key, stream),
            Source::Input(key) => self.input_ready(key, ready),
            Source::CallOutput(key) => self.call_printed(key),
            Source::Console(key) => self.console_ready(key),
            Source::AttachInput(key) => self.attachment_speaks(key),
            Source::AttachOutput(key, stream) => self.attachment_listens(key, stream, ready),
            Source::LogWriter => self.logs_written(),
            Source::Oom(key) => self.oom_suspected(key),
            Source::Dial(key) => self.dial_ready(key),
            Source::StartFifo(key) => self.fifo_ready(key, ready.broken()),
        }
    }

    /// Returns the next moment at which something is due even if no event arrives.
    fn next_deadline(&self) -> Option<Instant> {
        let calls = self.calls.values().filter_map(Call::deadline);
        let dials = self.dials.values().map(|dialling| dialling.deadline);
        let reports = self.containers.values().filter_map(|it| it.report_by);
        let followers = self.attachments.values().filter_map(Attachment::deadline);
        let ending = self.ending.iter().map(|ending| ending.deadline);
        let closing = self.closing.deadline();
        let all = calls.chain(dials).chain(reports).chain(followers);
        let all = all.chain(ending).chain(closing);
        all.chain(self.deaf_until).min()
    }

    #[inline(never)]
    fn deadlines(&mut self) {
        let now = Instant::now();
        self.late_calls(now);
        self.late_dials(now);
        self.late_reports(now);
        self.late_followers(now);
        self.closing.close_due(now);
        if self.deaf_until.is_some_and(|until| until <= now) {
            self.deaf_until = None;
            self.listener.set(Interest::Read);
        }
    }

    fn accept(&mut self) {
        loop {
            match orlop_keeper_protocol::accept(&self.listener) {
                Ok(Some(socket)) => {
                    let _ = self.add_connection(socket, FrameBuffer::new());
                }
                Ok(None) => return,
                Err(_) => {
                    self.listener.set(Interest::Nothing);
                    self.deaf_until = Some(Instant::now() + ACCEPT_AGAIN);
                    return;
                }
            }
        }
    }

    fn connection_ready(&mut self, key: u64, ready: &Ready) {
        let Some(connection) = self.connections.get_mut(&key) else {
            return;
        };
        if ready.writable() && connection.flush().is_err() {
            self.connections.remove(&key);
            return;
        }
        if ready.readable() {
            let received = connection.receive();
            self.take_requests(key, received);
        }
    }

    /// Handles all received requests, then drops the connection if it has ended.
    pub(crate) fn take_requests(&mut self, key: u64, mut received: Result<(), Ended>) {
        while let Some(connection) = self.connections.get_mut(&key) {
            match connection.next_frame() {
                Ok(Some(frame)) => self.request(key, frame),
                Ok(None) => break,
                Err(ended) => {
                    received = Err(ended);
                    break;
                }
            }
        }
        if received.is_err() {
            self.connections.remove(&key);
        }
    }
}
