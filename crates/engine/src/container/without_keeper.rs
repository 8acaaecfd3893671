//! Containers whose keeper is gone.

use std::sync::Arc;

use orlop_cri::v1::ContainerEventType;
use orlop_launch::{ExitStatus, recorded_exit};

use crate::error::Result;
use crate::node::Node;
use crate::record::container::{Container, Exit, Phase};
use crate::{blocking, clock};

/// The exit code of a container whose end nobody saw, as the peers report it.
const UNKNOWN: i32 = 255;

/// Ends one. Its exit may be on record, else it is killed.
pub async fn end(node: &Node, container: &Arc<Container>) -> Result<()> {
    if container.phase() != Phase::Running {
        return Ok(());
    }
    let (run, id) = (container.pod.run.clone(), container.id.to_string());
    let recorded = blocking(move || Ok(recorded_exit(&run, &id).ok().flatten())).await?;
    node.cgroups.kill_processes(container).await;
    let exit = recorded.as_ref().map_or_else(
        || Exit {
            at: clock::now(),
            code: UNKNOWN,
            reason: "Unknown".into(),
            message: "the process that watched over the pod is gone".into(),
        },
        exit_of,
    );
    if container.exited(exit).await {
        node.tell_container(container, ContainerEventType::ContainerStoppedEvent);
    }
    Ok(())
}

/// How a container ended, as its keeper tells it.
pub fn exit_of(status: &ExitStatus) -> Exit {
    let reason = match (status.oom, status.code) {
        (true, _) => "OOMKilled",
        (false, 0) => "Completed",
        (false, _) => "Error",
    };
    Exit {
        at: i64::try_from(status.time_ns).unwrap_or(i64::MAX),
        code: i32::try_from(status.code).unwrap_or(UNKNOWN),
        reason: reason.into(),
        message: String::new(),
    }
}
