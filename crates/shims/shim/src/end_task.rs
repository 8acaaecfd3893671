//! Ends a container, through its shim or without it.

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
/// What is still there so long after SIGKILL sits in a kernel.
const LIMIT: Duration = Duration::from_secs(10);

/// Kills a task and has the shim forget it. One that is not there is gone.
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
                // It may end in this moment; then the next look shows it.
                let killed = tasks.kill(id, "", SIGKILL, true);
                let is_refused = killed.is_err_and(|error| !error.is_not_found());
                if is_refused && state.status() == Status::Created {
                    // runwasi's shims kill nothing that was not started, but they forget it.
                    break;
                }
                sleep(Duration::from_millis(5));
            }
        }
    }
    Error::unless_gone(tasks.delete(id, "")).or_else(|_| {
        // Its runtime may have been killed while it held the container still, and then calls it paused for
        // ever. The shim's program insists.
        launch::clean_up(settings, pod, bundle, id)?;
        Error::unless_gone(tasks.delete(id, ""))
    })
}

/// The shim's program cleans up where the shim can't.
pub(crate) fn without_shim(settings: &Settings, pod: &PodDir, task: &TaskDir) {
    // It has told its reason in the shim's log, and there is nobody else to ask.
    let _ = launch::clean_up(settings, pod, &task.dir, &task.id);
    if let Sandboxer::Proxy { .. } = settings.sandboxer {
        let _ = task.take_back_mounts();
    }
}
