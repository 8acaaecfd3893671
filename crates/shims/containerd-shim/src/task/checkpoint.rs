//! `Checkpoint`: checkpoints a container with CRIU.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;

use orlop_containerd_api::task::CheckpointTaskRequest;

use crate::error::{Result, too_soon};
use crate::events::Event;
use crate::options::CheckpointOptions;
use crate::shim::Shim;

pub(super) fn call(shim: &Arc<Shim>, request: CheckpointTaskRequest) -> Result<()> {
    let CheckpointTaskRequest { id, path, options } = request;
    let options = CheckpointOptions::of(options.as_ref())?;
    let (runtime, bundle) = {
        let mut tasks = shim.tasks.lock();
        let task = tasks.get(&id)?;
        (task.runtime.clone(), task.bundle.clone())
    };
    let runtime = runtime.ok_or_else(|| too_soon("a pod sandbox cannot be checkpointed"))?;
    let image = if options.image_path.as_os_str().is_empty() {
        PathBuf::from(&path)
    } else {
        options.image_path
    };
    let work = if options.work_path.as_os_str().is_empty() {
        bundle.join("criu-work")
    } else {
        options.work_path
    };
    let mut words: Vec<&OsStr> = vec!["checkpoint".as_ref(), "--image-path".as_ref()];
    words.extend([image.as_os_str(), "--work-path".as_ref(), work.as_os_str()]);
    words.extend(options.flags.iter().map(OsStr::new));
    if !options.exit {
        words.push("--leave-running".as_ref());
    }
    words.push(id.as_ref());
    runtime.direct(&words)?;
    shim.publisher.tell(&Event::Checkpointed {
        id: &id,
        path: &path,
    });
    Ok(())
}
