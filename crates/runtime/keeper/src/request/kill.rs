//! Signals a container.

use std::os::fd::OwnedFd;

use orlop_keeper_protocol::{Done, Failure, FailureKind, Kill};
use rustix::process::{Pid, Signal, kill_process};

use crate::calls::Streams;
use crate::connection::ReplyTo;
use crate::failure::{failure, no_container};
use crate::keeper::Keeper;
use crate::purpose::Purpose;
use crate::sys::signal::by_number;

impl Keeper {
    pub(super) fn kill(
        &mut self,
        request: Kill,
        _: Vec<OwnedFd>,
        to: ReplyTo,
    ) -> Result<(), Failure> {
        let id = &request.container;
        let key = self.container_key(id).ok_or_else(|| no_container(id))?;
        let container = self.containers.get(&key);
        let container = container.ok_or_else(|| no_container(id))?;
        if let Some(call) = request.call {
            let called = self.start_call(call, Streams::Own, false, Purpose::Kill, to);
            return called.map(drop);
        }
        // A process that is alive or not reaped keeps its PID.
        if container.is_alive()
            && let Some(pid) = Pid::from_raw(container.pid)
        {
            let signal = checked_signal(request.signal)?;
            kill_process(pid, signal).map_err(|error| {
                let message = format!("cannot send signal {} to {id}: {error}", request.signal);
                failure(FailureKind::Failed, message)
            })?;
        }
        self.reply(to, Ok(Done {}));
        Ok(())
    }
}

fn checked_signal(number: u32) -> Result<Signal, Failure> {
    by_number(number).ok_or_else(|| {
        let message = format!("{number} is not a signal");
        failure(FailureKind::Invalid, message)
    })
}
