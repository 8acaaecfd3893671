//! What keepers report: the ends of containers and commands, and the end of a keeper itself.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use orlop_cri::v1::{ContainerEventType, NamespaceMode};
use orlop_launch::{ExitStatus, Keeper, KeeperEvent, KeeperEvents, recorded_exit};

use crate::clock;
use crate::container::{Container, Exit, Phase};
use crate::engine::Engine;
use crate::error::Result;
use crate::pod::{self, Pod};
use crate::reconnect::reach;
use crate::{blocking, nri, process};

/// The exit code of a container whose end nobody saw, as the peers report it.
const UNKNOWN: i32 = 255;

/// The pause after a keeper was reached that did not say what was missed.
const AGAIN: Duration = Duration::from_secs(1);

/// Follows the events of a pod's keeper until it is gone.
pub fn watch(engine: &Engine, pod: &Arc<Pod>, mut events: KeeperEvents) {
    let (engine_too, pod) = (engine.clone(), Arc::clone(pod));
    engine.tasks.spawn(async move {
        let mut lost = HashMap::new();
        let mut init: Pin<Box<dyn Future<Output = ()> + Send>> =
            Box::pin(init_end(Arc::clone(&pod)));
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                () = &mut init => {
                    init_lost(&engine_too, &pod).await;
                    init = Box::pin(std::future::pending());
                    continue;
                }
            };
            match event {
                KeeperEvent::Exited(exited) => {
                    if let Ok(container) = engine_too.containers.find(&exited.container) {
                        ended(&engine_too, container, exited.status);
                    }
                }
                KeeperEvent::ExecExited(exited) => {
                    engine_too.execs.ended(&exited.exec, exited.status);
                }
                KeeperEvent::OomKilled(oom) => {
                    engine_too.metrics.oom_kill();
                    tracing::info!(
                        container = oom.container,
                        count = oom.count,
                        "out of memory"
                    );
                }
                KeeperEvent::LogDropped(dropped) => {
                    let (container, bytes) = (&dropped.container, dropped.bytes);
                    // It says how much was lost so far.
                    let before = lost.insert(container.clone(), bytes).unwrap_or(0);
                    let more = bytes.saturating_sub(before);
                    engine_too.metrics.log_dropped(more);
                    tracing::warn!(container, bytes, reason = dropped.reason, "log lost output");
                }
                KeeperEvent::Gone => {
                    if let Some(found) = find_again(&engine_too, &pod).await {
                        events = found;
                        init = Box::pin(init_end(Arc::clone(&pod)));
                    } else {
                        engine_too.execs.abandon(&pod);
                        break;
                    }
                }
            }
        }
    });
}

/// Notes the end of a container and cleans up after it.
pub fn ended(engine: &Engine, container: Arc<Container>, status: ExitStatus) {
    let engine_too = engine.clone();
    engine.tasks.spawn(async move {
        {
            // A start that is still being written down comes first.
            let _turn = container.turn.lock().await;
            if !container.exited(exit_of(&status)).await {
                return;
            }
            engine_too.tell_container(&container, ContainerEventType::ContainerStoppedEvent);
            if let Err(error) = process::clean_up(&engine_too, &container).await {
                tracing::warn!(container = %container.id, %error, "cleaning up; removal tries again");
            }
        }
        nri::container_stopped(&engine_too, &container).await;
    });
}

fn exit_of(status: &ExitStatus) -> Exit {
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

/// The connection broke. If the keeper lives we take it up again, and learn what we missed. It may
/// only be slow: it is lost when its process has ended, and not before.
async fn find_again(engine: &Engine, pod: &Arc<Pod>) -> Option<KeeperEvents> {
    // Without one it was told to end.
    let former = pod.now().keeper?;
    let wanted = || pod.now().keeper.is_some();
    while let Some((keeper, events)) = reach(pod, Some(&former), wanted).await {
        if !pod.replace_keeper(keeper.clone()) {
            return None;
        }
        match catch_up(engine, &keeper).await {
            Ok(()) => return Some(events),
            Err(error) => {
                tracing::warn!(pod = %pod.id, %error, "asking the pod's keeper what was missed");
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
    if wanted() {
        lost(engine, pod).await;
    }
    None
}

/// Takes over the exits that happened while nobody listened.
async fn catch_up(engine: &Engine, keeper: &Keeper) -> orlop_launch::Result<()> {
    let listing = keeper.list().await?;
    for info in listing.containers {
        if let (Some(status), Ok(container)) = (info.exit, engine.containers.find(&info.id)) {
            ended(engine, container, status);
        }
    }
    for exec in listing.execs {
        if let Some(status) = exec.exit {
            engine.execs.ended(&exec.id, status);
        }
    }
    Ok(())
}

/// Waits for the end of the PID namespace that the pod's containers share; for ever if they share
/// none, or if the pod is ended anyway.
async fn init_end(pod: Arc<Pod>) {
    if pod.namespaces().pid() == NamespaceMode::Pod
        && let Some(keeper) = pod.now().keeper
    {
        return keeper.init_ended().await;
    }
    std::future::pending::<()>().await;
}

/// The first process of the PID namespace that the pod's containers share has ended, and with it
/// all of them, as their keeper tells. No other can be started there: the pod is down.
async fn init_lost(engine: &Engine, pod: &Arc<Pod>) {
    // It ends with the keeper, too, of which others take care.
    let alone = pod.now().keeper.is_some_and(|keeper| !keeper.has_ended());
    if alone && pod.phase() == pod::Phase::Ready {
        tracing::error!(pod = %pod.id, "the first process of the pod's PID namespace has ended; the pod is down");
        note_down(engine, pod).await;
    }
}

/// Looks whether that happened before the pod was ready.
pub async fn init_lost_early(engine: &Engine, pod: &Arc<Pod>) {
    let shares = pod.namespaces().pid() == NamespaceMode::Pod;
    if shares
        && pod
            .now()
            .keeper
            .is_some_and(|keeper| keeper.pid_ns().is_none())
    {
        init_lost(engine, pod).await;
    }
}

/// The keeper died: the pod's namespaces die with its last container, so nothing of it can go on.
pub async fn lost(engine: &Engine, pod: &Arc<Pod>) {
    note_loss(engine, pod).await;
    clean_up_loss(engine, pod).await;
}

/// The keeper died: ends what is left of the pod, and says so.
pub async fn note_loss(engine: &Engine, pod: &Arc<Pod>) {
    tracing::error!(pod = %pod.id, "the pod's keeper is gone; ending what is left of the pod");
    pod.set_keeper(None);
    engine.execs.abandon(pod);
    for container in engine.containers_of(pod) {
        let _turn = container.turn.lock().await;
        if let Err(error) = end_without_keeper(engine, &container).await {
            tracing::error!(container = %container.id, %error, "ending a container without keeper");
        }
    }
    for container in engine.containers_of(pod) {
        if container.phase() == Phase::Exited {
            nri::container_stopped(engine, &container).await;
        }
    }
    if pod.phase() == pod::Phase::Ready {
        note_down(engine, pod).await;
    }
}

/// A pod that was ready is no more.
async fn note_down(engine: &Engine, pod: &Arc<Pod>) {
    // Its stop is told once it is stopped.
    pod.tell(|told| told.running = true);
    match pod.record(pod::Event::NotReady).await {
        Ok(()) => engine.tell_pod(pod, ContainerEventType::ContainerStoppedEvent),
        Err(error) => tracing::error!(pod = %pod.id, %error, "noting that the pod is down"),
    }
}

/// Cleans up after the containers of a pod whose keeper died.
pub async fn clean_up_loss(engine: &Engine, pod: &Arc<Pod>) {
    for container in engine.containers_of(pod) {
        let _turn = container.turn.lock().await;
        if container.phase() == Phase::Exited
            && let Err(error) = process::clean_up(engine, &container).await
        {
            tracing::warn!(container = %container.id, %error, "cleaning up; removal tries again");
        }
    }
}

/// Ends a container whose keeper is gone, and cleans up after it.
pub async fn without_keeper(engine: &Engine, container: &Arc<Container>) -> Result<()> {
    let _turn = container.turn.lock().await;
    if container.phase() != Phase::Running {
        return Ok(());
    }
    end_without_keeper(engine, container).await?;
    process::clean_up(engine, container).await
}

/// Its exit may be on record, else it is killed.
async fn end_without_keeper(engine: &Engine, container: &Arc<Container>) -> Result<()> {
    if container.phase() != Phase::Running {
        return Ok(());
    }
    let (run, id) = (container.pod.run.clone(), container.id.to_string());
    let recorded = blocking(move || Ok(recorded_exit(&run, &id).ok().flatten())).await?;
    engine.cgroups.kill_processes(container).await;
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
        engine.tell_container(container, ContainerEventType::ContainerStoppedEvent);
    }
    Ok(())
}
