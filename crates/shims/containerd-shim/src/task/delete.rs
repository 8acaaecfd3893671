//! `Delete`: removes a stopped container or command.

use std::sync::Arc;

use orlop_containerd_api::task::{DeleteRequest, DeleteResponse};
use orlop_keeper_protocol::{Delete, ForgetExec};

use crate::error::{Result, too_soon};
use crate::events::Event;
use crate::keeper::LIMIT;
use crate::rootfs;
use crate::runtime;
use crate::shim::Shim;
use crate::tasks::{Exit, Phase};

pub(super) fn call(shim: &Arc<Shim>, request: DeleteRequest) -> Result<DeleteResponse> {
    let DeleteRequest { id, exec_id: exec } = request;
    let (pid, exit) = if exec.is_empty() {
        container(shim, &id)?
    } else {
        command(shim, &id, &exec)?
    };
    Ok(exit.delete_response(pid))
}

fn container(shim: &Arc<Shim>, id: &str) -> Result<(u32, Exit)> {
    let (pid, exit, runtime, bundle) = {
        let mut tasks = shim.tasks.lock();
        let task = tasks.get(id)?;
        let process = &task.process;
        let exit = match (process.exit, process.phase) {
            (Some(exit), _) => exit,
            // A container that was never started is ended by this.
            (None, Phase::Created) => Exit::now(0),
            _ => {
                return Err(too_soon(
                    "cannot delete a running process: failed precondition",
                ));
            }
        };
        (process.pid, exit, task.runtime.clone(), task.bundle.clone())
    };
    if let Some(runtime) = runtime {
        let request = Delete {
            container: id.to_owned(),
            call: Some(runtime.delete(id, &bundle)),
        };
        let deleted = match shim.keeper() {
            Ok(keeper) => keeper
                .call("failed to delete task", &request, &[], runtime::LIMIT)
                .map(drop),
            // The keeper died, and the container with it.
            Err(_) => runtime.delete_directly(id),
        };
        match deleted {
            Err(status) if !status.message.contains("does not exist") => return Err(status),
            _ => {}
        }
    } else {
        shim.kill_pod(id, libc::SIGKILL as u32);
    }
    if let Some(task) = shim.forget(id) {
        rootfs::unmount_all(&bundle.join("rootfs"), task.mounts);
        for command in task.commands.values() {
            let _ = orlop_fs::remove_tree(&command.dir);
        }
    }
    shim.publisher.tell(&Event::Delete { id, pid, exit });
    crate::memory::trim();
    Ok((pid, exit))
}

fn command(shim: &Arc<Shim>, id: &str, exec: &str) -> Result<(u32, Exit)> {
    let (command, exit) = {
        let mut tasks = shim.tasks.lock();
        let process = tasks.process(id, exec)?;
        let exit = match (process.exit, process.phase) {
            (Some(exit), _) => exit,
            (None, Phase::Created) if !process.starting => Exit::now(0),
            _ => {
                return Err(too_soon(
                    "cannot delete a running process: failed precondition",
                ));
            }
        };
        (tasks.get(id)?.commands.remove(exec), exit)
    };
    let pid = command.as_ref().map_or(0, |command| command.process.pid);
    if let Some(command) = command {
        let _ = orlop_fs::remove_tree(&command.dir);
    }
    let request = ForgetExec {
        exec: format!("{id}/{exec}"),
    };
    if let Ok(keeper) = shim.keeper() {
        let _ = keeper.call("deleting an exec process", &request, &[], LIMIT);
    }
    Ok((pid, exit))
}
