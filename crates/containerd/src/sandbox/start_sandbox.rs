//! `StartSandbox`: the pod is there since it was made; from now on it counts as running.

use std::sync::Arc;

use orlop_ttrpc::{Writer, text};
use serde_json::json;

use crate::Result;
use crate::files::too_soon;
use crate::shim::Shim;
use crate::tasks::{Phase, timestamp};

const SPEC: &str = "types.containerd.io/opencontainers/runtime-spec/1/Spec";

pub(super) fn call(shim: &Arc<Shim>, request: &[u8]) -> Result<Vec<u8>> {
    let id = text(request, 1);
    let mut tasks = shim.tasks.lock();
    let task = tasks.get(&id)?;
    if !task.process.is_alive() {
        return Err(too_soon(format!("the sandbox {id} has exited")));
    }
    task.process.phase = Phase::Running;
    // containerd shows it to whoever asks for all there is.
    let spec = json!({
        "ociVersion": "1.2.0",
        "annotations": {"io.kubernetes.cri.container-type": "sandbox"},
        "linux": {"cgroupsPath": task.cgroup.as_ref().map_or("", |cgroup| cgroup.path().as_str())},
    });
    let spec = Writer::default().text(1, SPEC).text(2, &spec.to_string());
    let answer = Writer::default()
        .number(1, task.process.pid.into())
        .message(2, &timestamp(task.created_ns))
        .message(3, &spec.done());
    Ok(answer.done())
}
