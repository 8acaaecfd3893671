//! `Kill`: signals a container's first process, all its processes, or a command.

use std::sync::Arc;

use orlop_containerd_api::task::KillRequest;
use orlop_keeper_protocol::{Kill, KillExec};
use orlop_ttrpc::{Status, code};

use crate::error::{Result, not_found, too_soon};
use crate::keeper::LIMIT;
use crate::runtime;
use crate::shim::Shim;
use crate::tasks::{Exit, Phase};

pub(super) fn call(shim: &Arc<Shim>, request: KillRequest) -> Result<()> {
    let KillRequest {
        id,
        exec_id: exec,
        signal,
        all,
    } = request;
    let (runtime, bundle, phase, is_alive) = {
        let mut tasks = shim.tasks.lock();
        let process = tasks.process(&id, &exec)?;
        let (phase, is_alive) = (process.phase, process.is_alive());
        let task = tasks.get(&id)?;
        (task.runtime.clone(), task.bundle.clone(), phase, is_alive)
    };
    if !is_alive && (!all || !exec.is_empty()) {
        return Err(not_found("process already finished: not found"));
    }
    let Some(runtime) = runtime else {
        shim.kill_pod(&id, signal);
        return Ok(());
    };
    // A dead keeper's processes have already been ended.
    let keeper = shim
        .keeper()
        .map_err(|_| not_found("process already finished: not found"))?;
    if !exec.is_empty() {
        if phase == Phase::Created {
            // The command was never started.
            shim.ended(&id, &exec, Exit::now(128 + signal));
            return Ok(());
        }
        let request = KillExec {
            exec: format!("{id}/{exec}"),
            signal,
            // SIGKILL also kills the descendants of a command.
            alone: signal != libc::SIGKILL as u32,
        };
        keeper.call("signalling an exec process", &request, &[], LIMIT)?;
        return Ok(());
    }
    if phase == Phase::Paused && signal == libc::SIGKILL as u32 {
        // With cgroup v1, frozen processes do not die.
        let words = ["resume", &id].map(std::ffi::OsStr::new);
        let _ = runtime.direct(&words);
    }
    let request = Kill {
        container: id.clone(),
        signal,
        call: all.then(|| runtime.kill_all(&id, &bundle, signal)),
    };
    let limit = if all { runtime::LIMIT } else { LIMIT };
    match keeper.call("signalling a container", &request, &[], limit) {
        Ok(_) => Ok(()),
        Err(status) => Err(as_known(status)),
    }
}

/// Sets the message by which containerd recognises that the process no longer exists.
fn as_known(status: Status) -> Status {
    let is_over = status.code == code::FAILED_PRECONDITION
        || ["not running", "no such process", "does not exist"]
            .iter()
            .any(|words| status.message.contains(words));
    match is_over {
        true => not_found("process already finished: not found"),
        false if status.code == code::UNKNOWN => status,
        false => too_soon(status.message),
    }
}
