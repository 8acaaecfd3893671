//! Starts a created container: through its fifo if that is known, else with the runtime.

use std::os::fd::OwnedFd;

use orlop_keeper_protocol::{ContainerState, Failure, FailureKind, Start, Started};

use crate::calls::{Streams, patience};
use crate::clock::now_ns;
use crate::connection::ReplyTo;
use crate::failure::{failure, no_container};
use crate::keeper::Keeper;
use crate::purpose::Purpose;

impl Keeper {
    pub(super) fn start(
        &mut self,
        request: Start,
        _: Vec<OwnedFd>,
        to: ReplyTo,
    ) -> Result<(), Failure> {
        let id = &request.container;
        let key = self.container_key(id).ok_or_else(|| no_container(id))?;
        let container = self.containers.get_mut(&key);
        let container = container.ok_or_else(|| no_container(id))?;
        if container.state != ContainerState::Created || container.starting {
            let message = format!("container {id} is {:?}, not created", container.state);
            return Err(failure(FailureKind::WrongState, message));
        }
        container.starting = true;
        // Before it runs, so that its start never comes after its end.
        container.started_ns = now_ns();
        let begun = self.begin_start(key, request, to);
        if begun.is_err() {
            let _ = self.started(key, Err(Failure::default()));
            self.report_if_settled(key);
        }
        begun
    }

    fn begin_start(&mut self, key: u64, request: Start, to: ReplyTo) -> Result<(), Failure> {
        let Start { fifo, call, .. } = request;
        patience(&call)?;
        let has_fifo = !fifo.as_os_str().is_empty();
        if has_fifo && self.let_go(key, &fifo, to)? {
            return Ok(());
        }
        let called = self.start_call(call, Streams::Own, false, Purpose::Start(key), to);
        called.map(drop)
    }

    /// Handles the end of the runtime's call, or a start without one.
    pub(super) fn started(
        &mut self,
        key: u64,
        outcome: Result<(), Failure>,
    ) -> Result<Started, Failure> {
        let Some(container) = self.containers.get_mut(&key) else {
            return Err(failure(
                FailureKind::NotFound,
                "the container was deleted in the meantime",
            ));
        };
        container.starting = false;
        if let Err(failure) = outcome {
            container.started_ns = 0;
            return Err(failure);
        }
        if container.state == ContainerState::Created {
            container.state = ContainerState::Running;
        }
        Ok(Started {
            started_ns: container.started_ns,
        })
    }
}
