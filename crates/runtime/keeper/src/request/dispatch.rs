//! Dispatches requests to their handlers, and finished runtime calls to their replies.

use std::os::fd::OwnedFd;

use orlop_keeper_protocol::{
    Attach, Body, Create, Delete, Detach, Dial, Done, Exec, Failure, FailureKind, ForgetExec,
    Frame, Hello, Kill, KillExec, List, Mount, ReopenLog, Request, Resize, Shutdown, Start,
    Subscribe, VERSION,
};

use crate::calls::Finished;
use crate::connection::ReplyTo;
use crate::failure::failure;
use crate::keeper::Keeper;
use crate::purpose::Purpose;

impl Keeper {
    /// Serves a request.
    pub(crate) fn request(&mut self, connection: u64, frame: Frame) {
        let to = ReplyTo {
            connection,
            request: frame.request,
        };
        if self.ending.is_some() {
            let answer = failure(FailureKind::WrongState, "the keeper is shutting down");
            return self.reply::<Done>(to, Err(answer));
        }
        match frame.kind {
            Hello::KIND => self.now(to, frame, Self::hello),
            List::KIND => self.now(to, frame, Self::list),
            Subscribe::KIND => self.now(to, frame, |keeper, Subscribe {}, _| {
                if let Some(connection) = keeper.connections.get_mut(&connection) {
                    connection.subscribed = true;
                }
                Ok(Done {})
            }),
            Mount::KIND => self.now(to, frame, Self::mount),
            Create::KIND => self.later(to, frame, Self::create),
            Start::KIND => self.later(to, frame, Self::start),
            Kill::KIND => self.later(to, frame, Self::kill),
            Delete::KIND => self.later(to, frame, Self::delete),
            Exec::KIND => self.later(to, frame, Self::exec),
            KillExec::KIND => self.now(to, frame, Self::kill_exec),
            ForgetExec::KIND => self.now(to, frame, Self::forget_exec),
            Resize::KIND => self.now(to, frame, Self::resize),
            Attach::KIND => self.now(to, frame, Self::attach),
            Detach::KIND => self.now(to, frame, Self::detach),
            ReopenLog::KIND => self.later(to, frame, Self::reopen_log),
            Dial::KIND => self.later(to, frame, Self::dial),
            Shutdown::KIND => self.later(to, frame, |keeper, Shutdown {}, _, to| {
                keeper.shut_down(to);
                Ok(())
            }),
            kind => {
                let message = format!("this keeper does not support requests of kind {kind}");
                self.reply::<Done>(to, Err(failure(FailureKind::Unsupported, message)));
            }
        }
    }

    /// Serves a request with an immediate reply.
    fn now<R: Request>(
        &mut self,
        to: ReplyTo,
        frame: Frame,
        serve: impl FnOnce(&mut Self, R, Vec<OwnedFd>) -> Result<R::Reply, Failure>,
    ) {
        let answer = decode(&frame).and_then(|request| serve(self, request, frame.fds));
        self.reply(to, answer);
    }

    /// Serves a request whose reply comes when it is done, unless it fails at once.
    fn later<R: Request>(
        &mut self,
        to: ReplyTo,
        frame: Frame,
        serve: impl FnOnce(&mut Self, R, Vec<OwnedFd>, ReplyTo) -> Result<(), Failure>,
    ) {
        let served = decode(&frame).and_then(|request| serve(self, request, frame.fds, to));
        if let Err(failure) = served {
            self.reply::<Done>(to, Err(failure));
        }
    }

    /// Handles a runtime call that has ended.
    pub(crate) fn call_finished(&mut self, finished: Finished) {
        let Finished {
            purpose,
            console,
            reply_to,
            given_up,
            outcome,
        } = finished;
        let awaited = reply_to.is_some_and(|to| self.hears(to));
        match purpose {
            Purpose::Create(making) => {
                let container = making.container;
                // If the daemon is gone, it has recorded nothing, and the next daemon assumes that the container was
                // not started.
                let answer = self.created(making, console, outcome, awaited);
                if reply_to.is_none() {
                    self.end_unawaited(container);
                }
                self.reply_if_awaited(reply_to, answer.map(|body| (body, Vec::new())));
                self.fifo_ready(container, false);
            }
            Purpose::Start(key) => {
                // A client that received a timeout assumes that the container does not run. A daemon that connected
                // after the requesting one was gone assumes that it runs.
                let as_believed = if given_up {
                    outcome.is_err()
                } else {
                    awaited || outcome.is_ok()
                };
                if !as_believed {
                    self.end_unawaited(key);
                }
                let answer = self.started(key, outcome);
                self.reply_if_awaited(reply_to, answer.map(|body| (body, Vec::new())));
                self.report_if_settled(key);
            }
            Purpose::Kill => {
                self.reply_if_awaited(reply_to, outcome.map(|()| (Done {}, Vec::new())));
            }
            Purpose::Delete(id) => {
                let answer = self.deleted(&id, outcome);
                self.reply_if_awaited(reply_to, answer.map(|body| (body, Vec::new())));
            }
            Purpose::Exec(running) => {
                let (answer, ended) = self.exec_ran(&running, console, outcome);
                let unheard = answer.is_ok() && !awaited;
                self.reply_if_awaited(reply_to, answer);
                if let Some(status) = ended {
                    self.session_ended(&running.exec, status);
                }
                if unheard {
                    self.end_command(running.exec);
                }
            }
        }
    }

    fn reply_if_awaited<B: Body>(
        &mut self,
        to: Option<ReplyTo>,
        answer: Result<(B, Vec<OwnedFd>), Failure>,
    ) {
        if let Some(to) = to {
            self.reply_with(to, answer);
        }
    }

    fn hello(
        &mut self,
        hello: Hello,
        _: Vec<OwnedFd>,
    ) -> Result<orlop_keeper_protocol::Welcome, Failure> {
        if hello.version != VERSION {
            let message = format!(
                "this keeper supports protocol version {VERSION}, not {}",
                hello.version
            );
            return Err(failure(FailureKind::Unsupported, message));
        }
        Ok(self.pod.welcome())
    }
}

fn decode<R: Request>(frame: &Frame) -> Result<R, Failure> {
    R::decode(&frame.payload).map_err(|error| {
        let message = format!("cannot decode a request of kind {}: {error}", frame.kind);
        failure(FailureKind::Invalid, message)
    })
}
