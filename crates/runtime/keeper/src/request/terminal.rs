//! Resizes a container's terminal and reopens its log.

use std::os::fd::OwnedFd;

use orlop_keeper_protocol::{Done, Failure, FailureKind, ReopenLog, Resize};
use rustix::termios::tcsetwinsize;

use super::create::window;
use crate::connection::ReplyTo;
use crate::failure::{failure, no_container};
use crate::keeper::Keeper;

impl Keeper {
    pub(super) fn resize(&mut self, request: Resize, _: Vec<OwnedFd>) -> Result<Done, Failure> {
        let id = &request.container;
        let key = self.container_key(id).ok_or_else(|| no_container(id))?;
        let container = self.containers.get(&key);
        let container = container.ok_or_else(|| no_container(id))?;
        let Some(terminal) = container.out.as_ref().filter(|_| container.tty) else {
            let message = format!("container {id} has no terminal");
            return Err(failure(FailureKind::WrongState, message));
        };
        let size = window(request.rows, request.columns);
        tcsetwinsize(terminal, size).map_err(|error| {
            let message = format!("cannot resize the terminal of container {id}: {error}");
            failure(FailureKind::Failed, message)
        })?;
        Ok(Done {})
    }

    pub(super) fn reopen_log(
        &mut self,
        request: ReopenLog,
        _: Vec<OwnedFd>,
        to: ReplyTo,
    ) -> Result<(), Failure> {
        let id = &request.container;
        let key = self.container_key(id).ok_or_else(|| no_container(id))?;
        let container = self.containers.get_mut(&key);
        let Some(log) = container.and_then(|container| container.log.as_mut()) else {
            let message = format!("container {id} has no log");
            return Err(failure(FailureKind::WrongState, message));
        };
        log.reopen(to);
        self.pump_log(key);
        Ok(())
    }
}
