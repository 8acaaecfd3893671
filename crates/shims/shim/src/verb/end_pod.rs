//! `end-pod`: ends the shim of a pod with all its containers.

use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::arguments::{Sandboxer, Settings, Words};
use crate::end_task::{end, without_shim};
use crate::endpoint::Endpoint;
use crate::error::{Error, Result};
use crate::state_dir::{PodDir, StateDir, TaskDir};
use crate::task::Tasks;
use crate::{controller, launch};

/// How long a shim may take to exit before it is killed.
const LIMIT: Duration = Duration::from_secs(3);

pub(crate) fn run(settings: &Settings, state: &StateDir, words: &Words) -> Result<()> {
    end_pod(settings, state, &state.pod(&words.word(0)?)?)
}

pub(super) fn end_pod(settings: &Settings, state: &StateDir, pod: &PodDir) -> Result<()> {
    if !pod.dir.is_dir() {
        return Ok(());
    }
    let lock = pod.lock_to_end()?;
    let shim = pod.endpoint().ok();
    let tasks = shim.as_ref().and_then(|shim| Tasks::connect(shim).ok());
    let left = state.tasks_of(&pod.id);
    let itself = match &settings.sandboxer {
        Sandboxer::Proxy { address, .. } => Some(Endpoint::of_controller(address)),
        _ => None,
    };
    match (shim, tasks) {
        (Some(shim), Some(mut tasks)) => {
            let controller = controller::of(settings);
            let mut end_task = |task: &TaskDir| end(settings, pod, &mut tasks, &task.id, &task.dir);
            let ended = left.iter().try_for_each(&mut end_task);
            let ended = ended.and_then(|()| controller.stop(pod, &shim));
            controller.shutdown(pod, &shim);
            if let Some(itself) = itself {
                // The server may have tasks of other pods, so it does not exit.
                left.iter().try_for_each(TaskDir::take_back_mounts)?;
                ended.or_else(|error| without_controller(&itself, &shim, error))?;
            } else {
                see_it_end(&shim);
                if ended.is_err() {
                    // The shim is gone: clean up the rest without it.
                    for task in &left {
                        without_shim(settings, pod, task);
                    }
                    launch::clean_up_pod(settings, pod, Some(&shim));
                }
            }
            left.iter().try_for_each(TaskDir::erase)?;
        }
        (shim, _) => {
            for task in left {
                without_shim(settings, pod, &task);
                task.erase()?;
            }
            launch::clean_up_pod(settings, pod, shim.as_ref());
            // The controller may run although its sandbox's task server is dead. Without a recorded server, the
            // controller was never called.
            if let (Some(itself), Some(served)) = (itself, shim) {
                let controller = controller::of(settings);
                match controller.stop(pod, &itself) {
                    Ok(()) => controller.shutdown(pod, &itself),
                    Err(error) => without_controller(&itself, &served, error)?,
                }
            }
        }
    }
    pod.erase()?;
    drop(lock);
    Ok(())
}

/// Decides whether the end succeeds without the controller. If the sandbox's task server is dead too, nothing known is
/// left that only the controller could end; the caller is told.
fn without_controller(itself: &Endpoint, server: &Endpoint, error: Error) -> Result<()> {
    if !itself.is_gone() {
        return Err(error);
    }
    if !server.has_come_up() {
        return Err(Error::Failed(format!(
            "{error}; cannot determine whether the controller created the sandbox; start the controller again"
        )));
    }
    let pid = server.pid;
    if server.is_alive() {
        return Err(Error::Failed(format!(
            "{error}; process {pid} still serves the sandbox; start the controller again, or kill \
             that process"
        )));
    }
    println!(
        "{error}; process {pid}, which served the sandbox, has exited; other resources that the \
         controller created for the sandbox are left behind"
    );
    Ok(())
}

fn see_it_end(shim: &Endpoint) {
    let Some(pid) = Pid::from_raw(shim.pid as i32) else {
        return;
    };
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else {
        return;
    };
    let limit = Timespec {
        tv_sec: LIMIT.as_secs() as i64,
        tv_nsec: 0,
    };
    let mut fds = [PollFd::new(&process, PollFlags::IN)];
    if poll(&mut fds, Some(&limit)) == Ok(0) {
        let _ = pidfd_send_signal(&process, Signal::KILL);
        shim.forget();
    }
}
