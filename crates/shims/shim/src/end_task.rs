//! Ends a container, with its shim or without it.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use orlop_containerd_api::task_types::Status;

use crate::arguments::{Sandboxer, Settings};
use crate::error::{Error, Result};
use crate::launch;
use crate::state_dir::{PodDir, TaskDir};
use crate::task::Tasks;

const SIGKILL: u32 = 9;
/// How long a task may take to exit after SIGKILL; one that takes longer is stuck in the kernel.
const LIMIT: Duration = Duration::from_secs(10);

/// Kills a task and deletes it in the shim. It is not an error if the task is missing.
pub(crate) fn end(
    settings: &Settings,
    pod: &PodDir,
    tasks: &mut Tasks,
    id: &str,
    bundle: &Path,
) -> Result<()> {
    let deadline = Instant::now() + LIMIT;
    loop {
        match tasks.state(id, "") {
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) => return Err(error),
            Ok(state) if state.status() == Status::Stopped => break,
            Ok(_) if Instant::now() > deadline => {
                let problem = format!("{id} still exists {LIMIT:?} after SIGKILL");
                return Err(Error::Failed(problem));
            }
            Ok(state) => {
                // The task may exit at this moment; the next check shows it.
                let killed = tasks.kill(id, "", SIGKILL, true);
                let is_refused = killed.is_err_and(|error| !error.is_not_found());
                if is_refused && state.status() == Status::Created {
                    // runwasi's shims cannot kill a task that was not started, but they delete it.
                    break;
                }
                sleep(Duration::from_millis(5));
            }
        }
    }
    Error::unless_gone(tasks.delete(id, "")).or_else(|_| {
        // If its runtime was killed while it had paused the container, the container would stay paused forever. The
        // shim's program deletes it nevertheless.
        launch::clean_up(settings, pod, bundle, id)?;
        Error::unless_gone(tasks.delete(id, ""))
    })
}

/// Runs the shim's program to clean up a task that the shim cannot.
pub(crate) fn without_shim(settings: &Settings, pod: &PodDir, task: &TaskDir) {
    // The reason of a failure is in the shim's log, and there is no alternative.
    let _ = launch::clean_up(settings, pod, &task.dir, &task.id);
    if let Sandboxer::Proxy { .. } = settings.sandboxer {
        let _ = task.take_back_mounts();
    }
}
