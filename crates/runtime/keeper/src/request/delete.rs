//! Deletes a container.

use std::os::fd::OwnedFd;

use orlop_keeper_protocol::{ContainerState, Delete, Done, Failure, FailureKind};
use rustix::process::{Pid, Signal, kill_process};

use crate::calls::Streams;
use crate::child::Process;
use crate::connection::ReplyTo;
use crate::failure::failure;
use crate::keeper::Keeper;
use crate::pod::unmount_all;
use crate::purpose::Purpose;

impl Keeper {
    pub(super) fn delete(
        &mut self,
        request: Delete,
        _: Vec<OwnedFd>,
        to: ReplyTo,
    ) -> Result<(), Failure> {
        let id = request.container;
        let state = self
            .container_key(&id)
            .and_then(|key| self.containers.get(&key))
            .map(|container| container.state);
        if state == Some(ContainerState::Creating) {
            let message = format!("container {id} is being created");
            return Err(failure(FailureKind::WrongState, message));
        }
        if let Some(call) = request.call {
            let called = self.start_call(call, Streams::Own, false, Purpose::Delete(id), to);
            return called.map(drop);
        }
        if matches!(
            state,
            Some(ContainerState::Created | ContainerState::Running)
        ) {
            let message = format!("container {id} is still running");
            return Err(failure(FailureKind::WrongState, message));
        }
        let answer = self.deleted(&id, Ok(()));
        self.reply(to, answer);
        Ok(())
    }

    /// Handles the end of the runtime's call.
    pub(super) fn deleted(
        &mut self,
        id: &str,
        outcome: Result<(), Failure>,
    ) -> Result<Done, Failure> {
        outcome?;
        let Some(key) = self.container_key(id) else {
            self.remove_record(id);
            return Ok(Done {});
        };
        if let Some(container) = self.containers.get_mut(&key) {
            let left = unmount_all(&mut container.mounts);
            if let Some(left) = left {
                return Err(failure(FailureKind::Failed, left));
            }
        }
        self.went(key);
        self.remove_record(id);
        self.close_output(key);
        if let Some(mut container) = self.containers.remove(&key) {
            if container.is_alive()
                && let Some(pid) = Pid::from_raw(container.pid)
            {
                // The runtime reports that it is gone; it may only not have been reaped yet.
                let _ = kill_process(pid, Signal::KILL);
            }
            if let Some(log) = container.log.take().filter(|log| !log.is_settled()) {
                self.lingering.insert(key, log);
            }
        }
        let sessions = std::mem::take(&mut self.sessions);
        for session in sessions {
            if session.container == id {
                let process = Process::Session(session.id);
                self.processes.retain(|_, it| *it != process);
            } else {
                self.sessions.push_back(session);
            }
        }
        self.attachments
            .retain(|_, attachment| attachment.container != key);
        Ok(Done {})
    }
}
