//! `Exec`: prepares a command in a container. `Start` runs it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use orlop_containerd_api::task::ExecProcessRequest;
use orlop_ttrpc::{Status, code};

use crate::error::{Result, failed, invalid, too_soon};
use crate::events::Event;
use crate::place::{checked, make_private};
use crate::shim::Shim;
use crate::stdio::Streams;
use crate::tasks::{Command, Phase, Process};

/// Numbers for the directories of commands, because clients choose arbitrary names.
static NEXT: AtomicU64 = AtomicU64::new(1);

pub(super) fn call(shim: &Arc<Shim>, request: ExecProcessRequest) -> Result<()> {
    let (id, exec) = (request.id, request.exec_id);
    checked(&exec)?;
    let streams = Streams {
        terminal: request.terminal,
        stdin: request.stdin,
        stdout: request.stdout,
        stderr: request.stderr,
    };
    let process = request.spec.filter(|any| !any.value.is_empty());
    let process = process.ok_or_else(|| invalid("the process specification is missing"))?;
    {
        let mut tasks = shim.tasks.lock();
        let task = tasks.get(&id)?;
        if task.commands.contains_key(&exec) {
            return Err(Status::new(
                code::ALREADY_EXISTS,
                format!("id {exec}: already exists"),
            ));
        }
        if !task.process.is_alive() {
            return Err(too_soon(
                "cannot exec in a stopped container: failed precondition",
            ));
        }
        if task.runtime.is_none() {
            return Err(too_soon("cannot exec in a pod sandbox"));
        }
    }
    let dir = NEXT.fetch_add(1, Ordering::Relaxed).to_string();
    let dir = shim.place.commands().join(dir);
    make_private(&dir)?;
    let path = dir.join("process.json");
    std::fs::write(&path, process.value).map_err(failed("writing", &path))?;
    let command = Command {
        process: Process {
            phase: Phase::Created,
            ..Process::of(streams)
        },
        dir,
    };
    shim.tasks
        .lock()
        .get(&id)?
        .commands
        .insert(exec.clone(), command);
    shim.publisher.tell(&Event::ExecAdded {
        id: &id,
        exec: &exec,
    });
    Ok(())
}
