//! Handles keeper events: exits of containers and commands, and the exit of the keeper itself.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use orlop_cri_api::v1::{ContainerEventType, NamespaceMode};
use orlop_launch::{ExitStatus, Keeper, KeeperEvent, KeeperEvents};

use crate::container::{hung_keeper, process, without_keeper};
use crate::node::Node;
use crate::nri;
use crate::pod::reconnect::reach;
use crate::pod::shared;
use crate::record::container::{Container, Phase};
use crate::record::pod::{self, Pod};

/// Pause after a keeper that was reached could not list the missed events.
const AGAIN: Duration = Duration::from_secs(1);

/// Follows the events of a pod's keeper until it is gone.
pub fn watch(node: &Arc<Node>, pod: &Arc<Pod>, mut events: KeeperEvents) {
    let (node_too, pod) = (Arc::clone(node), Arc::clone(pod));
    node.tasks.spawn(async move {
        let mut lost = HashMap::new();
        let mut init: Pin<Box<dyn Future<Output = ()> + Send>> =
            Box::pin(init_end(Arc::clone(&pod)));
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                () = &mut init => {
                    init_lost(&node_too, &pod).await;
                    init = Box::pin(std::future::pending());
                    continue;
                }
            };
            match event {
                KeeperEvent::Exited(exited) if exited.container == pod.id.as_str() => {
                    shared::ended(&node_too, &pod);
                }
                KeeperEvent::Exited(exited) => {
                    if let Ok(container) = node_too.containers.find(&exited.container) {
                        ended(&node_too, container, exited.status);
                    }
                }
                KeeperEvent::ExecExited(exited) => {
                    node_too.commands.ended(&exited.exec, exited.status);
                }
                KeeperEvent::OomKilled(oom) => {
                    node_too.metrics.oom_kill();
                    tracing::info!(
                        container = oom.container,
                        count = oom.count,
                        "a process was killed because the container is out of memory"
                    );
                }
                KeeperEvent::LogDropped(dropped) => {
                    let (container, bytes) = (&dropped.container, dropped.bytes);
                    // Each event has the total lost so far.
                    let before = lost.insert(container.clone(), bytes).unwrap_or(0);
                    let more = bytes.saturating_sub(before);
                    node_too.metrics.log_dropped(more);
                    tracing::warn!(
                        container,
                        bytes,
                        reason = dropped.reason,
                        "a container log lost output"
                    );
                }
                KeeperEvent::Gone => {
                    if let Some(found) = find_again(&node_too, &pod).await {
                        events = found;
                        init = Box::pin(init_end(Arc::clone(&pod)));
                    } else {
                        node_too.commands.abandon(&pod);
                        break;
                    }
                }
            }
        }
    });
}

/// Records the exit of a container and cleans up after it.
pub fn ended(node: &Arc<Node>, container: Arc<Container>, status: ExitStatus) {
    let node_too = Arc::clone(node);
    node.tasks.spawn(async move {
        {
            // Wait for a start that is still being recorded.
            let _turn = container.turn.lock().await;
            let mut status = status;
            if !status.oom && told_of_no_memory(&node_too, &container) {
                node_too.metrics.oom_kill();
                status.oom = true;
            }
            if !container.exited(without_keeper::exit_of(&status)).await {
                return;
            }
            node_too.tell_container(&container, ContainerEventType::ContainerStoppedEvent);
            let cleaning = process::clean_up(&node_too.cgroups, &node_too.runtimes, &container);
            let cleaned = hung_keeper::unless_hangs(&container, "cleaning up after", cleaning);
            if let Err(error) = cleaned.await {
                tracing::warn!(container = %container.id, %error, "cannot clean up a container; its removal will try again");
            }
        }
        nri::container_stopped(&node_too, &container).await;
    });
}

/// Whether a shim has reported that the container ran out of memory, which no cgroup on the host shows.
fn told_of_no_memory(node: &Node, container: &Container) -> bool {
    let handler = node.runtimes.of(&container.pod).ok();
    handler
        .filter(|handler| handler.settings.is_shim())
        .is_some_and(|handler| {
            let tasks = handler.runtime.root.join("tasks");
            tasks.join(container.id.as_str()).join("oom").exists()
        })
}

/// Reconnects to a keeper after the connection broke, and reads the missed events. A keeper may just be slow: it counts
/// as lost only when its process has exited.
async fn find_again(node: &Arc<Node>, pod: &Arc<Pod>) -> Option<KeeperEvents> {
    // A pod without a keeper was stopped on purpose.
    let former = pod.now().keeper?;
    let wanted = || pod.now().keeper.is_some();
    while let Some((keeper, events)) = reach(pod, Some(&former), wanted).await {
        if !pod.replace_keeper(keeper.clone()) {
            return None;
        }
        match catch_up(node, pod, &keeper).await {
            Ok(()) => return Some(events),
            Err(error) => {
                tracing::warn!(pod = %pod.id, %error, "cannot read missed events from the pod's keeper");
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
    if wanted() {
        lost(node, pod).await;
    }
    None
}

/// Records the exits that happened while the daemon was not connected.
async fn catch_up(node: &Arc<Node>, pod: &Arc<Pod>, keeper: &Keeper) -> orlop_launch::Result<()> {
    let listing = keeper.list().await?;
    shared::take_over(node, pod, &listing.containers);
    for info in listing.containers {
        if let (Some(status), Ok(container)) = (info.exit, node.containers.find(&info.id)) {
            ended(node, container, status);
        }
    }
    for exec in listing.execs {
        if let Some(status) = exec.exit {
            node.commands.ended(&exec.id, status);
        }
    }
    Ok(())
}

/// Waits for the end of the PID namespace that the pod's containers share. Never returns if they share none, or if the
/// pod is being stopped.
async fn init_end(pod: Arc<Pod>) {
    if pod.namespaces().pid() == NamespaceMode::Pod
        && let Some(keeper) = pod.now().keeper
    {
        return keeper.init_ended().await;
    }
    std::future::pending::<()>().await;
}

/// Marks a pod as not ready after the init process of its shared PID namespace has exited. All its containers have
/// exited with it, as the keeper reports, and no other can start.
async fn init_lost(node: &Node, pod: &Arc<Pod>) {
    // The init also exits with the keeper, which is handled elsewhere.
    let alone = pod.now().keeper.is_some_and(|keeper| !keeper.has_ended());
    if alone && pod.phase() == pod::Phase::Ready {
        tracing::error!(pod = %pod.id, "the first process of the pod's PID namespace has exited; the pod is not ready");
        note_down(node, pod).await;
    }
}

/// Checks whether the init of the shared PID namespace exited before the pod was ready.
pub async fn init_lost_early(node: &Node, pod: &Arc<Pod>) {
    let shares = pod.namespaces().pid() == NamespaceMode::Pod;
    if shares
        && pod
            .now()
            .keeper
            .is_some_and(|keeper| keeper.pid_ns().is_none())
    {
        init_lost(node, pod).await;
    }
}

/// Handles the exit of a keeper. The pod's namespaces end with its last container, so the pod cannot continue.
pub async fn lost(node: &Node, pod: &Arc<Pod>) {
    note_loss(node, pod).await;
    clean_up_loss(node, pod).await;
}

/// Stops the remaining containers of a pod whose keeper has exited, and marks the pod as not ready.
pub async fn note_loss(node: &Node, pod: &Arc<Pod>) {
    tracing::error!(pod = %pod.id, "the pod's keeper has exited; stopping the pod's containers");
    pod.set_keeper(None);
    node.commands.abandon(pod);
    for container in node.containers.of(pod) {
        let _turn = container.turn.lock().await;
        if let Err(error) = without_keeper::end(node, &container).await {
            tracing::error!(
                container = %container.id,
                %error,
                "cannot stop a container whose keeper has exited"
            );
        }
    }
    for container in node.containers.of(pod) {
        if container.phase() == Phase::Exited {
            nri::container_stopped(node, &container).await;
        }
    }
    if pod.phase() == pod::Phase::Ready {
        note_down(node, pod).await;
    }
}

/// Records that a ready pod is not ready any more.
pub async fn note_down(node: &Node, pod: &Arc<Pod>) {
    // Plugins are notified of the stop once the pod is stopped.
    pod.tell(|told| told.running = true);
    match pod.record(pod::Event::NotReady).await {
        Ok(()) => node.tell_pod(pod, ContainerEventType::ContainerStoppedEvent),
        Err(error) => {
            tracing::error!(pod = %pod.id, %error, "cannot record that the pod is not ready");
        }
    }
}

/// Cleans up after the containers of a pod whose keeper has exited.
pub async fn clean_up_loss(node: &Node, pod: &Arc<Pod>) {
    for container in node.containers.of(pod) {
        let _turn = container.turn.lock().await;
        if container.phase() == Phase::Exited
            && let Err(error) = process::clean_up(&node.cgroups, &node.runtimes, &container).await
        {
            tracing::warn!(container = %container.id, %error, "cannot clean up a container; its removal will try again");
        }
    }
}
