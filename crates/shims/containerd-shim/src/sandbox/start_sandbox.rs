//! `StartSandbox`: marks the pod as running; it exists since its creation.

use std::sync::Arc;

use orlop_containerd_api::sandbox::{StartSandboxRequest, StartSandboxResponse};
use orlop_containerd_api::{Any, Timestamp};
use serde_json::json;

use crate::error::{Result, too_soon};
use crate::shim::Shim;
use crate::tasks::Phase;

const SPEC: &str = "types.containerd.io/opencontainers/runtime-spec/1/Spec";

pub(super) fn call(shim: &Arc<Shim>, request: StartSandboxRequest) -> Result<StartSandboxResponse> {
    let id = request.sandbox_id;
    let mut tasks = shim.tasks.lock();
    let task = tasks.get(&id)?;
    if !task.process.is_alive() {
        return Err(too_soon(format!("the sandbox {id} has exited")));
    }
    task.process.phase = Phase::Running;
    // containerd shows this in a verbose status.
    let spec = json!({
        "ociVersion": "1.2.0",
        "annotations": {"io.kubernetes.cri.container-type": "sandbox"},
        "linux": {"cgroupsPath": task.cgroup.as_ref().map_or("", |cgroup| cgroup.path().as_str())},
    });
    Ok(StartSandboxResponse {
        pid: task.process.pid,
        created_at: Some(Timestamp::from_nanos(task.created_ns)),
        spec: Some(Any {
            type_url: SPEC.into(),
            value: spec.to_string().into(),
        }),
    })
}
