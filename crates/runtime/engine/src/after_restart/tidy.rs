//! Finishes the interrupted operations of an earlier run of the daemon, while clients are already served.
//!
//! The cleanup holds the lock of the pod or container. Requests for it wait until the cleanup is done.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream;

use crate::after_restart::restore::{self, Leftovers};
use crate::after_restart::unrecorded;
use crate::blocking;
use crate::checkpoint::capture;
use crate::container::process;
use crate::error::{Error, Result, chain};
use crate::node::Node;
use crate::pod::{keeper_events, reconnect, teardown};
use crate::record::container::{Container, Phase};
use crate::record::directories::remove_tree;
use crate::record::pod::{self, Pod};

/// Number of pods that are cleaned up concurrently; clients need the machine, too.
const SIDE_BY_SIDE: usize = 4;

/// Does all remaining work.
pub async fn run(node: &Arc<Node>, left: Leftovers) {
    let Leftovers {
        unread,
        debris,
        runs,
        pods,
        silent,
        lost,
        half_started,
    } = left;
    let all: Vec<_> = pods.iter().map(|(pod, _)| Arc::clone(pod)).collect();
    node.cgroups.give_back_limits(&all).await;
    for directory in debris {
        node.metrics.leak("directory");
        tracing::warn!(path = %directory.display(), "a pod or container directory has no readable record; removing it");
        report(
            remove(directory).await,
            "cannot remove a directory that has no record",
        );
    }
    for container in half_started {
        // The runtime may still be running.
        let node_too = Arc::clone(node);
        node.tasks
            .spawn(async move { clean_half_start(&node_too, &container).await });
    }
    let is_silent: HashSet<_> = silent.iter().map(|pod| pod.id.clone()).collect();
    let (silent, pods): (Vec<_>, Vec<_>) = pods
        .into_iter()
        .partition(|(pod, _)| is_silent.contains(&pod.id));
    for (pod, containers) in silent {
        // In the background, as nothing else waits for a keeper that does not answer.
        let node_too = Arc::clone(node);
        node.tasks.spawn(async move {
            find_again(&node_too, &pod).await;
            tidy_pod(&node_too, &pod, &containers).await;
        });
    }
    stream::iter(lost)
        .for_each_concurrent(SIDE_BY_SIDE, |pod| {
            let node = Arc::clone(node);
            async move { keeper_events::clean_up_loss(&node, &pod).await }
        })
        .await;
    stream::iter(pods)
        .for_each_concurrent(SIDE_BY_SIDE, |(pod, containers)| {
            let node = Arc::clone(node);
            async move { tidy_pod(&node, &pod, &containers).await }
        })
        .await;
    release_leftovers(node, unread, runs).await;
}

/// Logs a failure. The recorded state stays, so that stop and remove try again.
fn report(result: Result<()>, doing: &str) {
    if let Err(error) = result {
        tracing::error!(error = chain(&*error), "{doing}");
    }
}

async fn remove(directory: PathBuf) -> Result<()> {
    blocking(move || remove_tree(&directory)).await
}

async fn clean_half_start(node: &Node, container: &Arc<Container>) {
    let _turn = container.turn.lock().await;
    report(
        process::clean_up_half_made(&node.cgroups, &node.runtimes, container).await,
        "cannot clean up after an interrupted container start",
    );
}

/// Adopts a keeper that was busy when the daemon started.
async fn find_again(node: &Arc<Node>, pod: &Arc<Pod>) {
    let wanted = || {
        let undone = matches!(pod.phase(), pod::Phase::Creating | pod::Phase::Removing);
        node.pods.contains(pod.id.as_str()) && !undone
    };
    match reconnect::reach(pod, None, wanted).await {
        Some((keeper, events)) => {
            for container in restore::adopt(node, pod, keeper, events).await {
                clean_half_start(node, &container).await;
            }
        }
        None if wanted() && pod.phase() == pod::Phase::Ready => {
            keeper_events::lost(node, pod).await;
        }
        None => {}
    }
}

async fn tidy_pod(node: &Node, pod: &Arc<Pod>, containers: &[Arc<Container>]) {
    let tidied = match pod.phase() {
        pod::Phase::Creating => teardown::undo(node, pod).await,
        pod::Phase::Removing => teardown::remove(node, pod).await,
        pod::Phase::Ready => tidy_containers(node, containers).await,
        pod::Phase::NotReady => match stop_again(node, pod).await {
            Ok(()) => tidy_containers(node, containers).await,
            failed => failed,
        },
    };
    if let Err(error) = tidied {
        tracing::error!(pod = %pod.id, error = chain(&*error), "cannot finish the interrupted operation of a pod");
    }
}

/// Stops a pod again that was being stopped, or whose keeper was thought dead.
async fn stop_again(node: &Node, pod: &Arc<Pod>) -> Result<()> {
    let _turn = pod.turn.write().await;
    if pod.now().keeper.is_some() {
        teardown::stop(node, pod).await?;
    }
    Ok(())
}

/// Undoes half-created containers, and finishes removals.
async fn tidy_containers(node: &Node, containers: &[Arc<Container>]) -> Result<()> {
    for container in containers {
        match container.phase() {
            Phase::Creating => teardown::undo_container(node, container).await?,
            Phase::Removing => teardown::remove_container(node, container).await?,
            _ => capture::recover(&node.runtimes, container).await?,
        }
    }
    Ok(())
}

/// Releases resources that belong to no pod or container. A failure does not stop the others.
async fn release_leftovers(node: &Arc<Node>, unread: HashSet<String>, runs: Vec<String>) {
    let is_unknown = |name: &String| !unread.contains(name) && !node.pods.contains(name);
    let unknown: Vec<String> = runs.into_iter().filter(is_unknown).collect();
    stream::iter(unknown)
        .for_each_concurrent(SIDE_BY_SIDE, |name| {
            let node = Arc::clone(node);
            async move {
                node.metrics.leak("keeper");
                if let Err(error) = end_unknown_keeper(&node, &name).await {
                    let error = chain(&*error);
                    tracing::error!(
                        pod = name,
                        error,
                        "cannot stop a keeper that belongs to no pod"
                    );
                }
            }
        })
        .await;
    if unread.is_empty() {
        report(
            release_leases(node).await,
            "cannot release image leases of containers that no longer exist",
        );
    } else {
        // The containers of pods with unreadable records are unknown.
        tracing::warn!(
            pods = unread.len(),
            "some pod records are unreadable; releasing no image leases"
        );
    }
    let pods = Arc::clone(node);
    let is_valid = move |id: &orlop_network::ContainerId| {
        unread.contains(id.as_str()) || pods.pods.contains(id.as_str())
    };
    match node.networks.gc(is_valid).await {
        Ok(report) => report
            .released
            .iter()
            .for_each(|_| node.metrics.leak("network")),
        Err(error) => {
            tracing::warn!(%error, "releasing network attachments of removed pods");
        }
    }
}

/// Stops the keeper of an unknown pod, and removes its containers, network namespace and files.
pub async fn end_unknown_keeper(node: &Node, name: &str) -> Result<()> {
    let run = node.paths.runs().join(name);
    let ended = orlop_launch::end_keeper(&run).await;
    ended.map_err(|source| Error::Launch {
        doing: format!("stopping the keeper of pod sandbox {name}, which has no record"),
        source,
    })?;
    // The directory is the only list of the pod's containers. It goes last, so that a run that is killed or fails here
    // can be repeated.
    unrecorded::forget(node, name, &run).await?;
    teardown::remove_run(&node.paths, &run, name).await
}

/// Releases as many leases as possible, and returns the first error.
async fn release_leases(node: &Node) -> Result<()> {
    let mut first = Ok(());
    for lease in node.images.leases() {
        let container = lease.owner.split('/').next().unwrap_or_default();
        if node.containers.contains(container) {
            continue;
        }
        match node.images.release(&lease.owner).await {
            Ok(freed) => {
                node.metrics.freed(&freed);
                node.metrics.leak("lease");
            }
            Err(source) if first.is_ok() => {
                let doing = "releasing the images of removed containers".into();
                first = Err(Error::Image { doing, source }.into());
            }
            Err(_) => {}
        }
    }
    first
}
