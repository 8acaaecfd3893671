//! `Pause`: freezes a container.

use std::ffi::OsStr;
use std::sync::Arc;

use orlop_containerd_api::task::PauseRequest;

use crate::error::{Result, too_soon};
use crate::events::Event;
use crate::shim::Shim;
use crate::tasks::Phase;

pub(super) fn call(shim: &Arc<Shim>, request: PauseRequest) -> Result<()> {
    let id = request.id;
    change(shim, &id, Phase::Running, Phase::Paused, "pause")?;
    shim.publisher.tell(&Event::Paused { id: &id });
    Ok(())
}

/// Makes the runtime change a container's state.
pub(super) fn change(shim: &Shim, id: &str, from: Phase, to: Phase, command: &str) -> Result<()> {
    let runtime = {
        let mut tasks = shim.tasks.lock();
        let task = tasks.get(id)?;
        if task.process.phase != from {
            let phase = task.process.phase;
            return Err(too_soon(format!(
                "cannot {command} a container that is {phase:?}"
            )));
        }
        task.runtime.clone()
    };
    let runtime =
        runtime.ok_or_else(|| too_soon(format!("a pod sandbox does not support {command}")))?;
    runtime.direct(&[command, id].map(OsStr::new))?;
    let mut tasks = shim.tasks.lock();
    let process = tasks.process(id, "")?;
    if process.phase == from {
        process.phase = to;
    }
    Ok(())
}
