//! `delete`: kills a container if it still runs, and deletes it.

use orlop_containerd_api::task_types::Status;

use super::end_pod;
use crate::arguments::{Settings, Words};
use crate::end_task::{end, without_shim};
use crate::error::{Error, Result};
use crate::mounts;
use crate::state_dir::StateDir;
use crate::task::Tasks;

pub(crate) fn run(settings: &Settings, state: &StateDir, words: &Words) -> Result<()> {
    let task = state.task(&words.word(0)?)?;
    if !task.exists() {
        return if words.has("--force") {
            Ok(())
        } else {
            Err(Error::NoContainer(task.id))
        };
    }
    let Ok(pod) = task.pod(state) else {
        // Nothing has been created for it yet.
        return task.erase();
    };
    let shim = pod
        .endpoint()
        .and_then(|shim| Ok((Tasks::connect(&shim)?, shim.pid)));
    match shim {
        Ok((mut tasks, pid)) if task.shim() == Some(pid) => {
            if !words.has("--force") && !has_ended(&mut tasks, &task.id)? {
                return Err(Error::Failed(format!("container {} is running", task.id)));
            }
            end(settings, &pod, &mut tasks, &task.id, &task.dir)?;
            mounts::take_back(&task.mounts(), pid)?;
        }
        _ => {
            // A concurrent end of the pod also cleans up this container and kills its programs.
            let _alone = pod.lock();
            if task.exists() {
                without_shim(settings, &pod, &task);
            }
        }
    }
    task.erase()?;
    if pod.id == state.pod_of_one(&task)?.id {
        end_pod::end_pod(settings, state, &pod)?;
    }
    Ok(())
}

fn has_ended(tasks: &mut Tasks, id: &str) -> Result<bool> {
    match tasks.state(id, "") {
        Ok(state) => Ok(matches!(state.status(), Status::Stopped | Status::Created)),
        Err(error) if error.is_not_found() => Ok(true),
        Err(error) => Err(error),
    }
}
