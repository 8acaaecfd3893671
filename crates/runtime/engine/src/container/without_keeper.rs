//! Stops containers whose keeper is gone or hangs.

use std::sync::Arc;
use std::time::Duration;

use orlop_cri_api::v1::ContainerEventType;
use orlop_launch::{ExitStatus, recorded_exit};
use tokio::time::{sleep, timeout};

use crate::error::{Error, Result};
use crate::node::Node;
use crate::node::runtimes::Handler;
use crate::record::container::{Container, Exit, Phase};
use crate::{blocking, clock};

/// Exit code of a container whose exit status is unknown, the same as other CRI runtimes report.
const UNKNOWN: i32 = 255;

/// Pause between two checks for remaining processes.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Time for a keeper that responds again to report an exit.
const TOLD_WITHIN: Duration = Duration::from_secs(1);

/// Stops a container whose keeper failed to answer with the error `unanswered`: signals its first process, and kills it
/// after `grace`. The keeper may only be slow, and its pod continues. Cleanup happens when the container is removed or
/// the pod is stopped, which kills a keeper that still hangs.
pub async fn stop(
    node: &Node,
    container: &Arc<Container>,
    unanswered: Arc<Error>,
    signal: u32,
    grace: Duration,
) -> Result<()> {
    let is_shim = |handler: Arc<Handler>| handler.settings.is_shim();
    if node.runtimes.of(&container.pod).map_or(true, is_shim) {
        // A container in a shim is in none of our cgroups; stopping its pod ends it.
        return Err(unanswered);
    }
    let id = &container.id;
    tracing::error!(
        container = %id,
        error = %unanswered,
        "the keeper does not respond; stopping the container without it"
    );
    if !grace.is_zero() && node.cgroups.signal_first(container, signal).await {
        let ended = async {
            while node.cgroups.has_processes(container).await {
                sleep(LOOK_AGAIN).await;
            }
        };
        // Or the keeper reports the exit after all.
        let _ = timeout(grace, async {
            tokio::select! { () = ended => {}, () = container.wait() => {} }
        })
        .await;
    }
    let _turn = container.turn.lock().await;
    node.cgroups.kill_processes(container).await;
    if node.cgroups.has_processes(container).await {
        return Err(unanswered);
    }
    // A keeper that was only slow reports the exit status.
    let _ = timeout(TOLD_WITHIN, container.wait()).await;
    end(node, container).await
}

/// Marks a container as exited, with the exit status on record if there is one. Kills its remaining processes.
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
            message: nobody_saw(container).into(),
        },
        exit_of,
    );
    if container.exited(exit).await {
        node.tell_container(container, ContainerEventType::ContainerStoppedEvent);
    }
    Ok(())
}

fn nobody_saw(container: &Container) -> &'static str {
    match container.pod.keeper() {
        Ok(_) => "the pod's keeper does not respond",
        Err(_) => "the pod's keeper has exited",
    }
}

/// Converts a keeper's exit status of a container.
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
