//! Containers that a keeper or a runtime knows and no record does: a damaged disk has taken it.
//!
//! No client can end them any more, and none knows that they are there: a kubelet starts others in their
//! place.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use orlop_launch::{ContainerInfo, Keeper};

use crate::blocking;
use crate::error::{Error, Result, chain};
use crate::node::Node;
use crate::node::runtimes::Handler;
use crate::record::directories::{names_in, remove_tree};
use crate::record::ids::ContainerId;
use crate::record::pod::Pod;

/// A runtime that takes longer to delete a container hangs.
const DELETE_LIMIT: Duration = Duration::from_secs(100);

/// Ends those of a pod that lives.
pub fn end_in(node: &Arc<Node>, pod: &Arc<Pod>, keeper: &Keeper, listing: &[ContainerInfo]) {
    for info in listing {
        // Of a pod's own name is what its containers share.
        if info.id == pod.id.as_str() || node.containers.contains(&info.id) {
            continue;
        }
        tracing::error!(pod = %pod.id, container = info.id, "no record of a container; ending it");
        node.metrics.leak("runtime");
        let (node_too, pod) = (Arc::clone(node), Arc::clone(pod));
        let (keeper, id) = (keeper.clone(), info.id.clone());
        node.tasks.spawn(async move {
            if let Err(error) = end(&node_too, &pod, &keeper, &id).await {
                let error = chain(&*error);
                tracing::error!(container = id, error, "ending a container without a record");
            }
        });
    }
}

async fn end(node: &Node, pod: &Pod, keeper: &Keeper, id: &str) -> Result<()> {
    let bundle = pod.run.join(id);
    if let Ok(handler) = node.runtimes.of(pod) {
        let deleted = keeper.delete(&handler.runtime, id, &bundle, DELETE_LIMIT);
        deleted.await.map_err(failed(id))?;
    } else {
        tracing::warn!(
            container = id,
            "its runtime is not configured any more; ending it without"
        );
        node.cgroups.remove_unrecorded(pod, id).await?;
        keeper.forget(id).await.map_err(failed(id))?;
    }
    let mounts = node.paths.private().join("rootfs").join(id);
    blocking(move || remove_tree(&bundle).and_then(|()| remove_tree(&mounts))).await
}

/// The containers of a pod that nobody knows: the names in its volatile directory.
pub async fn of_unknown_pod(run: &Path) -> Result<Vec<ContainerId>> {
    let run = run.to_owned();
    let names = blocking(move || names_in(&run)).await?;
    let ids = names.iter().filter_map(|name| ContainerId::parse(name));
    Ok(ids.collect())
}

/// Has runtimes forget containers whose keeper is gone: all that they can, and the first failure is told.
pub async fn forget(node: &Node, containers: Vec<ContainerId>) -> Result<()> {
    let mut first = Ok(());
    for id in containers {
        for handler in node.runtimes.everything() {
            let forgotten = forget_one(&handler, &id).await;
            if let Err(error) = &forgotten
                && first.is_err()
            {
                tracing::error!(container = %id, error = chain(&**error), "deleting a container without a record");
            }
            first = first.and(forgotten);
        }
    }
    first
}

async fn forget_one(handler: &Handler, id: &ContainerId) -> Result<()> {
    let Some(state) = handler.runtime.state_of(id.as_str()) else {
        return Ok(());
    };
    if !blocking(move || Ok(state.exists())).await? {
        return Ok(());
    }
    let deleted = handler.runtime.delete(id.as_str(), DELETE_LIMIT).await;
    deleted.map_err(failed(id.as_str()))?;
    Ok(())
}

fn failed(id: &str) -> impl FnOnce(orlop_launch::Error) -> Error {
    let doing = format!("deleting container {id}, which has no record");
    |source| Error::Launch { doing, source }
}
