//! `Start`: starts a created container or a prepared command.

use std::os::fd::AsFd;
use std::sync::Arc;

use orlop_containerd_api::Message;
use orlop_containerd_api::task::{StartRequest, StartResponse};
use orlop_keeper_protocol::{Create, Exec, Start};

use super::create::make;
use crate::caller::Caller;
use crate::error::{Result, too_soon, unknown};
use crate::events::Event;
use crate::options::Options;
use crate::owner::Owner;
use crate::runtime;
use crate::shim::Shim;
use crate::tasks::{Phase, now};
use crate::terminal::Terminal;

pub(super) fn call(
    shim: &Arc<Shim>,
    request: &StartRequest,
    caller: &Caller,
) -> Result<Option<Vec<u8>>> {
    let (id, exec) = (&request.id, &request.exec_id);
    begin(shim, id, exec)?;
    let started = if exec.is_empty() {
        container(shim, id)
    } else {
        command(shim, id, exec)
    };
    let pid = end(shim, id, exec, started);
    caller.answer(&pid.map(|pid| StartResponse { pid }.encode_to_vec()));
    // The process may have exited meanwhile; its exit event follows the start event.
    settle(shim, id, exec);
    Ok(None)
}

/// Allows the exit event of a process to be sent.
fn settle(shim: &Shim, id: &str, exec: &str) {
    if let Ok(process) = shim.tasks.lock().process(id, exec) {
        process.starting = false;
        if let Some(exit) = &mut process.held {
            exit.at_ns = exit.at_ns.max(now());
        }
    }
    shim.tell_ends(id);
}

fn begin(shim: &Shim, id: &str, exec: &str) -> Result<()> {
    let mut tasks = shim.tasks.lock();
    let is_gone = !tasks.process(id, "")?.is_alive();
    let process = tasks.process(id, exec)?;
    if process.phase != Phase::Created || process.starting {
        return Err(too_soon(format!(
            "the process is {:?}, not created",
            process.phase
        )));
    }
    if is_gone {
        return Err(too_soon(format!(
            "container {id} init process is not running"
        )));
    }
    process.starting = true;
    Ok(())
}

fn end(shim: &Shim, id: &str, exec: &str, started: Result<u32>) -> Result<u32> {
    let mut tasks = shim.tasks.lock();
    let process = tasks.process(id, exec)?;
    let pid = started?;
    process.pid = pid;
    if process.phase == Phase::Created {
        process.phase = Phase::Running;
    }
    // Sent under the lock, so that the exit event follows.
    shim.publisher.tell(&if exec.is_empty() {
        Event::Start { id, pid }
    } else {
        Event::ExecStarted { id, exec, pid }
    });
    Ok(pid)
}

fn container(shim: &Arc<Shim>, id: &str) -> Result<u32> {
    let (pid, runtime, bundle, checkpoint, streams) = {
        let mut tasks = shim.tasks.lock();
        let task = tasks.get(id)?;
        let Some(runtime) = task.runtime.clone() else {
            // The pod is already running.
            return Ok(task.process.pid);
        };
        let streams = task.process.streams.clone();
        (
            task.process.pid,
            runtime,
            task.bundle.clone(),
            task.checkpoint.clone(),
            streams,
        )
    };
    let keeper = shim.keeper()?;
    if let Some(checkpoint) = checkpoint {
        let opened = streams.open(Owner::of(&shim.namespace, id, &Options::default()))?;
        let pid_file = bundle.join("init.pid");
        let from = [checkpoint.image.as_path(), &checkpoint.work];
        let request = Create {
            container: id.to_owned(),
            call: runtime.restore(id, &bundle, &pid_file, streams.terminal, from),
            pid_file,
            tty: streams.terminal,
            running: true,
            ..Create::default()
        };
        return make(shim, &keeper, request, opened);
    }
    let request = Start {
        container: id.to_owned(),
        call: runtime.start(id, &bundle),
        fifo: runtime.start_fifo(id),
    };
    keeper.call("OCI runtime start failed", &request, &[], runtime::LIMIT)?;
    Ok(pid)
}

fn command(shim: &Arc<Shim>, id: &str, exec: &str) -> Result<u32> {
    let (runtime, dir, streams) = {
        let mut tasks = shim.tasks.lock();
        let task = tasks.get(id)?;
        let runtime = task.runtime.clone();
        let runtime = runtime.ok_or_else(|| unknown("a pod sandbox cannot run an exec process"))?;
        let streams = task.process(exec)?.streams.clone();
        let command = task.commands.get(exec);
        let dir = command
            .map(|command| command.dir.clone())
            .unwrap_or_default();
        (runtime, dir, streams)
    };
    let mut opened = streams.open(Owner::of(&shim.namespace, id, &Options::default()))?;
    let three = opened.three.each_ref().map(|fd| fd.as_fd());
    let request = Exec {
        exec: format!("{id}/{exec}"),
        container: id.to_owned(),
        call: runtime.exec(id, &dir, streams.terminal),
        pid_file: dir.join("pid"),
        tty: streams.terminal,
        ..Exec::default()
    };
    let fds = if streams.terminal {
        &[][..]
    } else {
        &three[..]
    };
    let keeper = shim.keeper()?;
    let started = keeper.call("OCI runtime exec failed", &request, fds, runtime::LIMIT);
    let (started, mut terminal) = started?;
    let mut tasks = shim.tasks.lock();
    let process = tasks.process(id, exec)?;
    process.stdin = opened.stdin.take();
    process.logger = opened.logger.take();
    if let Some(controller) = terminal.pop() {
        let [input, output, _] = opened.three;
        process.terminal = Some(Terminal::copy(controller, input, output)?);
    }
    Ok(started.pid)
}
