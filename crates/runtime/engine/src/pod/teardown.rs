//! Stop and removal of pods and containers.
//!
//! Every step checks whether anything is left to do. A stop or removal that failed halfway continues where it failed,
//! in the next call or after a restart.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use orlop_cri_api::v1::ContainerEventType;
use orlop_pool::Place;

use crate::container::{bundle, hung_keeper, process};
use crate::error::{Error, Result};
use crate::node::Node;
use crate::node::paths::Paths;
use crate::off_reactor::waiting;
use crate::pod::sandbox;
use crate::record::container::{self, Container};
use crate::record::directories::remove_tree;
use crate::record::pod::{self, Pod};
use crate::{blocking, nri};

/// Removals of writable layers, which take longer the more files a container has written.
static REMOVING: Place = Place::new("removing writable layers", 32, 2, 4096);

/// Stops a pod and reports it as not ready.
pub async fn stop_visible(node: &Node, pod: &Arc<Pod>) -> Result<()> {
    let _creations_end = pod.want_stop();
    // A start that waits for the keeper holds the lock until the keeper answers.
    let turn = unless_keeper_hangs(pod, || pod.turn.write()).await;
    if turn.is_ok() && pod.phase() == pod::Phase::Creating {
        return Ok(());
    }
    let stopped = match &turn {
        Ok(_) => stop(node, pod).await,
        Err(error) => Err(Arc::clone(error)),
    };
    // No container can start without a keeper, even if the rest of the stop failed. A client that took the pod for
    // ready would try forever.
    let is_down = stopped.is_ok() || pod.now().keeper.is_none();
    if is_down && pod.phase() == pod::Phase::Ready {
        pod.record_if_possible(pod::Event::NotReady).await;
        node.tell_pod(pod, ContainerEventType::ContainerStoppedEvent);
    }
    stopped
}

/// Stops the pod's containers, detaches its network, and stops its keeper.
pub async fn stop(node: &Node, pod: &Arc<Pod>) -> Result<()> {
    if pod
        .now()
        .keeper
        .is_some_and(|keeper| !keeper.is_connected())
    {
        // Nothing can be stopped through an unreachable keeper; without it, everything can.
        sandbox::end_keeper(pod).await?;
    }
    let containers = node.containers.of(pod);
    unless_keeper_hangs(pod, || end_containers(node, &containers)).await??;
    for container in &containers {
        if container.phase() == container::Phase::Exited {
            nri::container_stopped(node, container).await;
        }
    }
    nri::pod_stopped(node, pod).await;
    sandbox::dismantle(node, pod).await
}

/// Stops containers and cleans up after them. May be canceled at any point, and repeated.
async fn end_containers(node: &Node, containers: &[Arc<Container>]) -> Result<()> {
    let stops = containers
        .iter()
        .map(|container| process::stop(node, container, Duration::ZERO));
    join_all(stops)
        .await
        .into_iter()
        .collect::<Result<Vec<()>>>()?;
    // The keeper calls their runtimes, so this comes before the keeper ends.
    let cleanups = containers.iter().map(|container| async move {
        // Not concurrently with the cleanup after the container's exit.
        let _turn = container.turn.lock().await;
        process::clean_up(&node.cgroups, &node.runtimes, container).await
    });
    join_all(cleanups).await.into_iter().collect()
}

/// Performs an operation on a pod that is to stop, which may involve its keeper. If the keeper hangs, kills it and
/// repeats the operation without it.
async fn unless_keeper_hangs<T, F>(pod: &Pod, work: impl Fn() -> F) -> Result<T>
where
    F: Future<Output = T>,
{
    tokio::select! {
        done = work() => return Ok(done),
        () = hung_keeper::hangs(pod) => {}
    }
    tracing::error!(pod = %pod.id, "the pod's keeper does not respond; stopping the pod without it");
    sandbox::end_keeper(pod).await?;
    Ok(work().await)
}

/// Removes a pod with all its containers.
pub async fn remove(node: &Node, pod: &Arc<Pod>) -> Result<()> {
    stop_visible(node, pod).await?;
    let _turn = pod.turn.write().await;
    for container in node.containers.of(pod) {
        remove_container(node, &container).await?;
    }
    let told = pod.visible();
    if pod.phase() != pod::Phase::Removing {
        pod.record_if_possible(pod::Event::Removing).await;
    }
    erase(node, pod).await?;
    if told {
        node.tell_pod(pod, ContainerEventType::ContainerDeletedEvent);
    }
    Ok(())
}

/// Erases the files of a stopped pod without containers, its record last.
pub async fn erase(node: &Node, pod: &Arc<Pod>) -> Result<()> {
    remove_run(&node.paths, &pod.run, pod.id.as_str()).await?;
    let dir = pod.dir.clone();
    blocking(move || erase_recorded(&dir)).await?;
    node.levels.release(pod);
    node.pods.remove(pod.id.as_str());
    // Plugins do not know a pod that failed earlier.
    if pod.visible() || pod.tell(|told| told.running) {
        nri::pod_removed(node, pod).await;
    }
    Ok(())
}

/// Removes the pod's volatile directory. Stops a keeper that may still use it first, and removes the pin of its network
/// namespace afterwards.
pub async fn remove_run(paths: &Paths, run: &Path, pod: &str) -> Result<()> {
    let failed = || {
        let doing = format!("removing the keeper's directory of pod sandbox {pod}");
        |source| Error::Launch { doing, source }
    };
    orlop_launch::remove_pod_dir(run).await.map_err(failed())?;
    let (pin, failed) = (paths.net_pins().join(pod), failed());
    blocking(move || orlop_launch::remove_pin(&pin).map_err(|error| failed(error).into())).await
}

/// Undoes a half-created pod, left by an earlier run or a failed cleanup.
pub async fn undo(node: &Node, pod: &Arc<Pod>) -> Result<()> {
    let _turn = pod.turn.write().await;
    if !node.pods.contains(pod.id.as_str()) {
        return Ok(());
    }
    stop(node, pod).await?;
    for container in node.containers.of(pod) {
        erase_container(node, &container).await?;
    }
    erase(node, pod).await
}

/// Undoes a half-created container, left by an earlier run or a failed cleanup.
pub async fn undo_container(node: &Node, container: &Arc<Container>) -> Result<()> {
    let _turn = container.turn.lock().await;
    if node.containers.contains(container.id.as_str()) {
        erase_container(node, container).await?;
    }
    Ok(())
}

/// Removes a container; kills it first if it runs.
pub async fn remove_container(node: &Node, container: &Arc<Container>) -> Result<()> {
    process::wait_for_start(container).await?;
    process::stop(node, container, Duration::ZERO).await?;
    let told = container.visible();
    if told {
        nri::container_stopped(node, container).await;
    }
    let farewell = nri::farewell(node, container).await;
    {
        let in_turn = async { Ok(container.turn.lock().await) };
        let _turn = hung_keeper::unless_hangs(container, "removing", in_turn).await?;
        let cleaning = process::clean_up(&node.cgroups, &node.runtimes, container);
        hung_keeper::unless_hangs(container, "cleaning up after", cleaning).await?;
        if container.phase() != container::Phase::Removing {
            container
                .record_if_possible(container::Event::Removing)
                .await;
        }
        erase_container(node, container).await?;
    }
    if told {
        node.tell_container(container, ContainerEventType::ContainerDeletedEvent);
        nri::container_removed(&node.nri, container, farewell).await;
    }
    Ok(())
}

/// Erases the files of a container without processes, its record last.
pub async fn erase_container(node: &Node, container: &Arc<Container>) -> Result<()> {
    let (bundle, dir) = (container.bundle.clone(), container.dir.clone());
    let mounts = node.paths.mounts(container);
    // Large files first: releasing the lease needs space to write.
    let layer = [container.upper(), container.work(), container.volumes()];
    waiting(&REMOVING, container.pod.id.as_str(), move || {
        remove_tree(&bundle)?;
        remove_tree(&mounts)?;
        layer
            .iter()
            .try_for_each(|directory| remove_tree(directory))
    })
    .await?;
    bundle::release(&node.images, &node.metrics, container).await?;
    blocking(move || erase_recorded(&dir)).await?;
    node.containers.remove(container.id.as_str());
    Ok(())
}

/// Removes a directory that contains a journal: everything else first, then the journal.
fn erase_recorded(dir: &Path) -> Result<()> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::io(format!("reading {}", dir.display()))(error).into()),
    };
    for entry in entries {
        let entry = entry.map_err(Error::io(format!("reading {}", dir.display())))?;
        if entry.file_name() != "journal" {
            remove_tree(&entry.path())?;
        }
    }
    remove_tree(dir)
}
