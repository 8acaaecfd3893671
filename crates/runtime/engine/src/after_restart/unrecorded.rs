//! Cleanup of containers that a keeper or runtime has but whose record is lost, for example on a damaged disk.
//!
//! Clients do not know these containers and cannot stop them: a kubelet starts others instead.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use orlop_launch::{ContainerInfo, Keeper};
use serde_json::Value;

use crate::blocking;
use crate::error::{Error, Result, chain};
use crate::node::Node;
use crate::node::runtimes::Handler;
use crate::pod::shared;
use crate::record::directories::{names_in, remove_tree};
use crate::record::ids::ContainerId;
use crate::record::pod::Pod;
use crate::record::spec_file;

/// Time limit for a runtime to delete a container.
const DELETE_LIMIT: Duration = Duration::from_secs(100);

/// Stops the containers without a record in a pod whose keeper lives.
pub fn end_in(node: &Arc<Node>, pod: &Arc<Pod>, keeper: &Keeper, listing: &[ContainerInfo]) {
    for info in listing {
        // The entry with the pod's own ID is its shared sandbox.
        if info.id == pod.id.as_str() || node.containers.contains(&info.id) {
            continue;
        }
        tracing::error!(pod = %pod.id, container = info.id, "a container has no record; stopping it");
        node.metrics.leak("runtime");
        let (node_too, pod) = (Arc::clone(node), Arc::clone(pod));
        let (keeper, id) = (keeper.clone(), info.id.clone());
        node.tasks.spawn(async move {
            if let Err(error) = end(&node_too, &pod, &keeper, &id).await {
                let error = chain(&*error);
                tracing::error!(
                    container = id,
                    error,
                    "cannot stop a container that has no record"
                );
            }
        });
    }
}

async fn end(node: &Node, pod: &Pod, keeper: &Keeper, id: &str) -> Result<()> {
    let bundle = pod.run.join(id);
    let handler = node.runtimes.of(pod).ok();
    if let Some(handler) = &handler {
        let deleted = keeper.delete(&handler.runtime, id, &bundle, DELETE_LIMIT);
        deleted.await.map_err(failed(id))?;
    } else {
        tracing::warn!(
            container = id,
            "the container's runtime is no longer configured; stopping the container without it"
        );
    }
    // Some runtimes leave the cgroup to their caller.
    node.cgroups.remove_unrecorded(pod, id).await?;
    if handler.is_none() {
        keeper.forget(id).await.map_err(failed(id))?;
    }
    let mounts = rootfs(node, id);
    blocking(move || remove_tree(&bundle).and_then(|()| remove_tree(&mounts))).await
}

/// Path where the root filesystem of a container is mounted.
fn rootfs(node: &Node, id: &str) -> PathBuf {
    node.paths.private().join("rootfs").join(id)
}

/// Deletes the containers of an unknown pod without a keeper from all runtimes, as far as possible, and returns the
/// first error. The names in the pod's volatile directory are the only list of its containers.
pub async fn forget(node: &Node, pod: &str, run: &Path) -> Result<()> {
    let (listed, sandbox) = (run.to_owned(), shared::bundle(run));
    let (names, has_sandbox) = blocking(move || Ok((names_in(&listed)?, sandbox.exists()))).await?;
    let ids = names.iter().filter_map(|name| ContainerId::parse(name));
    let mut first = Ok(());
    let mut note = |of: &str, done: Result<()>| {
        if let Err(error) = &done
            && first.is_ok()
        {
            tracing::error!(
                id = of,
                error = chain(&**error),
                "cannot remove resources of a container that has no record"
            );
            first = done;
        }
    };
    for handler in node.runtimes.everything() {
        if has_sandbox && handler.settings.is_shim() {
            note(pod, shared::end_with(&handler, pod).await);
        }
        for id in ids.clone() {
            note(id.as_str(), forget_one(&handler, &id).await);
        }
    }
    for id in ids {
        let bundle = run.join(id.as_str());
        let ended = end_cgroup(node, id.as_str(), bundle).await;
        note(id.as_str(), ended.map(drop));
        let mounts = rootfs(node, id.as_str());
        note(id.as_str(), blocking(move || remove_tree(&mounts)).await);
    }
    if has_sandbox {
        let ended = end_cgroup(node, pod, shared::bundle(run)).await;
        let had_process = ended.as_ref().is_ok_and(|had_process| *had_process);
        note(pod, ended.map(drop));
        let shims = node.runtimes.everything();
        for handler in shims
            .iter()
            .filter(|it| had_process && it.settings.is_shim())
        {
            // A dead shim's leftover process may have created its files again until now.
            note(pod, shared::end_with(handler, pod).await);
        }
    }
    first
}

/// Kills the processes in the cgroup that a specification names, and removes it. Returns whether there was a process.
async fn end_cgroup(node: &Node, id: &str, bundle: PathBuf) -> Result<bool> {
    let spec = blocking(move || {
        let path = bundle.join("config.json");
        let there = path.try_exists();
        if !there.map_err(Error::io(format!(
            "checking whether {} exists",
            path.display()
        )))? {
            // The daemon was killed before it wrote the file, so there is no cgroup.
            return Ok(Value::Null);
        }
        spec_file::read_as::<Value>(&bundle)
    });
    let spec = spec.await?;
    let path = spec.pointer("/linux/cgroupsPath").and_then(Value::as_str);
    match path {
        Some(path) => node.cgroups.remove_named(path, id).await,
        None => Ok(false),
    }
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
