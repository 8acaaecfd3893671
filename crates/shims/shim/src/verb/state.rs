//! `state`: prints the state of a container.

use orlop_containerd_api::task_types::Status;

use crate::arguments::Words;
use crate::error::Result;
use crate::state_dir::StateDir;

pub(crate) fn run(state: &StateDir, words: &Words) -> Result<()> {
    let task = state.task(&words.word(0)?)?;
    let state = task.tasks(state)?.state(&task.id, "")?;
    let status = match state.status() {
        Status::Created => "created",
        Status::Running => "running",
        Status::Stopped => "stopped",
        Status::Paused | Status::Pausing => "paused",
        Status::Unknown => "unknown",
    };
    let state = serde_json::json!({
        "ociVersion": "1.0.2",
        "id": task.id,
        "status": status,
        "pid": state.pid,
        "bundle": task.dir,
    });
    println!("{state}");
    Ok(())
}
