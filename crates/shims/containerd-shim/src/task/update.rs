//! `Update`: updates the limits of a container.

use std::ffi::OsStr;
use std::sync::Arc;

use orlop_containerd_api::task::UpdateTaskRequest;

use crate::error::{Result, failed, invalid};
use crate::shim::Shim;

pub(super) fn call(shim: &Arc<Shim>, request: UpdateTaskRequest) -> Result<()> {
    let id = request.id;
    let resources = request.resources.filter(|any| !any.value.is_empty());
    let resources = resources.ok_or_else(|| invalid("the resources are missing"))?;
    let runtime = shim.tasks.lock().get(&id)?.runtime.clone();
    let Some(runtime) = runtime else {
        // A pod's limits are those of its parent cgroup.
        return Ok(());
    };
    let path = shim.place.dir().join(format!("{id}.resources.json"));
    std::fs::write(&path, resources.value).map_err(failed("writing", &path))?;
    let words: [&OsStr; 4] = [
        "update".as_ref(),
        "--resources".as_ref(),
        path.as_ref(),
        id.as_ref(),
    ];
    let updated = runtime.direct(&words);
    let _ = std::fs::remove_file(&path);
    updated.map(drop)
}
