//! Undoing pods and containers.
//!
//! Every step looks whether there is anything left to do, so that a stop or removal that
//! failed half-way goes on where it failed, be it in the next call or after a restart.

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

/// A container's own files take as long to remove as it has made many.
static REMOVING: Place = Place::new("removing writable layers", 32, 2, 4096);

/// Stops a pod and lets clients see that it is stopped.
pub async fn stop_visible(node: &Node, pod: &Arc<Pod>) -> Result<()> {
    let _creations_end = pod.want_stop();
    // A start that waits for the keeper has the turn until that answers.
    let turn = unless_keeper_hangs(pod, || pod.turn.write()).await;
    if turn.is_ok() && pod.phase() == pod::Phase::Creating {
        return Ok(());
    }
    let stopped = match &turn {
        Ok(_) => stop(node, pod).await,
        Err(error) => Err(Arc::clone(error)),
    };
    // Without a keeper no container starts in it, whatever else is still to be undone: a client
    // that took it for ready would try for ever.
    let is_down = stopped.is_ok() || pod.now().keeper.is_none();
    if is_down && pod.phase() == pod::Phase::Ready {
        pod.record_if_possible(pod::Event::NotReady).await;
        node.tell_pod(pod, ContainerEventType::ContainerStoppedEvent);
    }
    stopped
}

/// Ends the pod's containers, detaches its network, and ends its keeper.
pub async fn stop(node: &Node, pod: &Arc<Pod>) -> Result<()> {
    if pod
        .now()
        .keeper
        .is_some_and(|keeper| !keeper.is_connected())
    {
        // Through one that can't be reached nothing ends; without it all does.
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

/// Ends containers and cleans up after them. May be given up anywhere, and repeated.
async fn end_containers(node: &Node, containers: &[Arc<Container>]) -> Result<()> {
    let stops = containers
        .iter()
        .map(|container| process::stop(node, container, Duration::ZERO));
    join_all(stops)
        .await
        .into_iter()
        .collect::<Result<Vec<()>>>()?;
    // Their runtimes are called through the keeper, so that must come before it ends.
    let cleanups = containers.iter().map(|container| async move {
        // Not beside the cleaning up that follows a container's end.
        let _turn = container.turn.lock().await;
        process::clean_up(&node.cgroups, &node.runtimes, container).await
    });
    join_all(cleanups).await.into_iter().collect()
}

/// Does something to a pod that is to end, of which its keeper may have a part to do. One that hangs is
/// ended, and it is done without it.
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

/// Erases what is on disk of a pod that is stopped and empty, its record last.
pub async fn erase(node: &Node, pod: &Arc<Pod>) -> Result<()> {
    remove_run(&node.paths, &pod.run, pod.id.as_str()).await?;
    let dir = pod.dir.clone();
    blocking(move || erase_recorded(&dir)).await?;
    node.levels.release(pod);
    node.pods.remove(pod.id.as_str());
    // Nobody has heard of one that failed before.
    if pod.visible() || pod.tell(|told| told.running) {
        nri::pod_removed(node, pod).await;
    }
    Ok(())
}

/// Removes the directory of what lives as long as a pod does, and before that the keeper that may
/// still be in it; then the pin of its network, which no keeper can make any more.
pub async fn remove_run(paths: &Paths, run: &Path, pod: &str) -> Result<()> {
    let failed = || {
        let doing = format!("removing the keeper's directory of pod sandbox {pod}");
        |source| Error::Launch { doing, source }
    };
    orlop_launch::remove_pod_dir(run).await.map_err(failed())?;
    let (pin, failed) = (paths.net_pins().join(pod), failed());
    blocking(move || orlop_launch::remove_pin(&pin).map_err(|error| failed(error).into())).await
}

/// Undoes a pod that is half made: what an earlier run left, or an undoing that failed.
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

/// Undoes a container that is half made, likewise.
pub async fn undo_container(node: &Node, container: &Arc<Container>) -> Result<()> {
    let _turn = container.turn.lock().await;
    if node.containers.contains(container.id.as_str()) {
        erase_container(node, container).await?;
    }
    Ok(())
}

/// Removes a container; one that runs is killed first.
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

/// Erases what is on disk of a container without processes, its record last.
pub async fn erase_container(node: &Node, container: &Arc<Container>) -> Result<()> {
    let (bundle, dir) = (container.bundle.clone(), container.dir.clone());
    let mounts = node.paths.mounts(container);
    // First what takes room: the lease is given up by writing.
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

/// Removes a directory with a journal in it: everything else first, then the journal.
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
