//! Runs commands in containers.

use std::os::fd::OwnedFd;

use orlop_keeper_protocol::{
    Done, Exec, ExecStarted, ExitStatus, Failure, FailureKind, ForgetExec, KillExec,
};
use rustix::process::Signal;

use super::create::{read_pid, set_size, window};
use crate::calls::Streams;
use crate::child::Process;
use crate::connection::ReplyTo;
use crate::console::Console;
use crate::container::Session;
use crate::failure::{failure, no_container};
use crate::keeper::Keeper;
use crate::purpose::{Purpose, Running};
use crate::tree::{self, Tree};

/// The reply to an exec, with the terminal.
type Answer = Result<(ExecStarted, Vec<OwnedFd>), Failure>;

impl Keeper {
    pub(super) fn exec(
        &mut self,
        request: Exec,
        fds: Vec<OwnedFd>,
        to: ReplyTo,
    ) -> Result<(), Failure> {
        let id = &request.container;
        let key = self.container_key(id).ok_or_else(|| no_container(id))?;
        if self.containers.get(&key).is_none_or(|it| !it.is_alive()) {
            let message = format!("container {id} is not running");
            return Err(failure(FailureKind::WrongState, message));
        }
        if self.session(&request.exec).is_some() {
            let message = format!("exec session {} already exists", request.exec);
            return Err(failure(FailureKind::Exists, message));
        }
        let streams = if request.tty {
            Streams::Own
        } else {
            Streams::Passed(fds.try_into().map_err(|_| {
                let message = "an exec session without a terminal requires three file descriptors";
                failure(FailureKind::Invalid, message)
            })?)
        };
        let _ = std::fs::remove_file(&request.pid_file);
        let running = Running {
            exec: request.exec.clone(),
            pid_file: request.pid_file,
            tty: request.tty,
            size: window(request.rows, request.columns),
        };
        let purpose = Purpose::Exec(running);
        let group = self.start_call(request.call, streams, request.tty, purpose, to)?;
        self.sessions.push_back(Session {
            id: request.exec,
            container: request.container,
            pid: 0,
            session: 0,
            group: group.as_raw_pid(),
            exit: None,
        });
        Ok(())
    }

    /// Handles the end of the runtime's call. Also returns how the command ended, if it already has.
    pub(super) fn exec_ran(
        &mut self,
        running: &Running,
        console: Option<Console>,
        outcome: Result<(), Failure>,
    ) -> (Answer, Option<ExitStatus>) {
        let settled = outcome.and_then(|()| self.settle_exec(running, console));
        match settled {
            Ok((pid, terminal, ended)) => {
                let fds = terminal.into_iter().collect();
                (Ok((ExecStarted { pid: pid as u32 }, fds)), ended)
            }
            Err(failure) => {
                self.sessions.retain(|session| session.id != running.exec);
                if let Ok(pid) = read_pid(&running.pid_file) {
                    self.kill_stray(pid);
                }
                (Err(failure), None)
            }
        }
    }

    fn settle_exec(
        &mut self,
        running: &Running,
        console: Option<Console>,
    ) -> Result<(i32, Option<OwnedFd>, Option<ExitStatus>), Failure> {
        let pid = read_pid(&running.pid_file)?;
        let terminal = console.and_then(|mut console| console.take_terminal());
        if let Some(terminal) = &terminal {
            set_size(terminal, running.size);
        }
        let process = Process::Session(running.exec.clone());
        let Ok(ended) = self.adopt(pid, process) else {
            let message = format!("process {pid} of the runtime is not a child of the keeper");
            return Err(failure(FailureKind::RuntimeFailed, message));
        };
        let led = match &ended {
            Some(ended) => ended.session,
            None => tree::session_of(pid),
        };
        if let Some(session) = self.session(&running.exec) {
            session.pid = pid;
            session.session = led.unwrap_or(0);
        }
        if running.tty && terminal.is_none() {
            let message = "the runtime did not send a terminal";
            return Err(failure(FailureKind::RuntimeFailed, message));
        }
        Ok((pid, terminal, ended.map(|ended| ended.status)))
    }

    pub(super) fn kill_exec(
        &mut self,
        request: KillExec,
        _: Vec<OwnedFd>,
    ) -> Result<Done, Failure> {
        let Some(session) = self.session(&request.exec) else {
            let message = format!("the keeper has no exec session {}", request.exec);
            return Err(failure(FailureKind::NotFound, message));
        };
        let (pid, ended) = (session.pid, session.exit.is_some());
        let (leader, group) = (session.session, session.group);
        let container = session.container.clone();
        let container = self
            .container_key(&container)
            .and_then(|key| self.containers.get(&key))
            .filter(|container| container.is_alive());
        // The PID of a command that has ended may be reused: then each process found must be verified against the
        // container. If the container has ended too, nothing is left to signal.
        match (pid, container) {
            (0, _) => {
                let message = format!("exec session {} is still starting", request.exec);
                return Err(failure(FailureKind::WrongState, message));
            }
            (_, None) if ended => {}
            (pid, _) if request.alone => {
                if !ended {
                    tree::signal_one(pid, request.signal);
                }
            }
            (pid, container) => {
                let peer = container.map(|container| container.pid);
                let tree = Tree {
                    root: pid,
                    session: leader,
                    group,
                    alive: !ended,
                    peer,
                };
                tree::signal(tree, request.signal);
            }
        }
        Ok(Done {})
    }

    /// Kills a command whose client does not know that it runs: no other client would.
    pub(super) fn end_command(&mut self, exec: String) {
        let request = KillExec {
            exec,
            signal: Signal::KILL.as_raw().unsigned_abs(),
            alone: false,
        };
        let _ = self.kill_exec(request, Vec::new());
    }

    pub(super) fn forget_exec(
        &mut self,
        request: ForgetExec,
        _: Vec<OwnedFd>,
    ) -> Result<Done, Failure> {
        self.sessions
            .retain(|session| session.id != request.exec || session.exit.is_none());
        Ok(Done {})
    }

    fn session(&mut self, id: &str) -> Option<&mut Session> {
        self.sessions.iter_mut().find(|session| session.id == id)
    }
}
