//! The sandbox that the containers of some pods share in addition to their namespaces: a virtual machine, a gVisor
//! kernel, or a shim process.
//!
//! It is created with the pod. The pod's keeper treats it as a container with the pod's ID, whose process is the
//! sandbox's monitor. So the keeper reports its exit like that of any container.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use orlop_launch::{ContainerInfo, CreateContainer};
use prost::Message as _;
use serde_json::{Value, json};

use crate::container::{namespaces, process};
use crate::error::{Error, Result};
use crate::node::Node;
use crate::node::cgroups::Cgroups;
use crate::node::runtimes::{Handler, Runtimes};
use crate::pod::keeper_events;
use crate::record::directories::make_private_dir;
use crate::record::pod::{Phase, Pod, Shared};
use crate::record::spec_file;
use crate::timeline::Trace;
use crate::{blocking, spec};

/// Time limit for the sandbox to start.
const BOOT_LIMIT: Duration = Duration::from_secs(100);

/// Time limit for the sandbox to end.
const END_LIMIT: Duration = Duration::from_mins(1);

/// Creates the sandbox, if the pod's runtime handler needs one.
pub async fn make(node: &Arc<Node>, pod: &Arc<Pod>, trace: &Trace) -> Result<()> {
    let handler = node.runtimes.of(pod)?;
    if handler.settings.is_shim() {
        trace.step("sandbox", "", boot(node, pod, &handler)).await?;
    }
    Ok(())
}

async fn boot(node: &Arc<Node>, pod: &Arc<Pod>, handler: &Handler) -> Result<()> {
    let keeper = pod.keeper()?;
    let spec = specification(node, pod, handler)?;
    let bundle = bundle(&pod.run);
    let create = CreateContainer {
        id: pod.id.to_string(),
        bundle: bundle.clone(),
        ..CreateContainer::default()
    };
    let config = pod.config.encode_to_vec();
    blocking(move || write(&bundle, &spec, &config)).await?;
    // The keeper may report its exit before it answers.
    pod.set_shared(Shared::Runs);
    let created = keeper.create(&handler.runtime, &create, BOOT_LIMIT).await;
    created.map(drop).map_err(|source| {
        let doing = format!("creating the sandbox of pod {}", pod.id);
        Error::Launch { doing, source }.into()
    })
}

/// Directory of the sandbox's bundle, in the pod's volatile directory. If it is missing, no sandbox was started.
pub fn bundle(run: &Path) -> PathBuf {
    run.join("sandbox")
}

fn write(bundle: &Path, spec: &Value, config: &[u8]) -> Result<()> {
    make_private_dir(bundle)?;
    let path = bundle.join("pod.pb");
    let written = orlop_fs::write_file(&path, 0o600, orlop_fs::Outlives::Kill, config);
    written.map_err(Error::io(format!("writing {}", path.display())))?;
    spec_file::write_json(&bundle.join("config.json"), spec)
}

/// The OCI specification for the runtime that creates the sandbox; it names no program.
fn specification(node: &Node, pod: &Pod, handler: &Handler) -> Result<Value> {
    let joined = namespaces::joined(&node.containers, pod, None)?;
    let joined = [
        ("network", joined.network),
        ("ipc", joined.ipc),
        ("uts", joined.uts),
        ("pid", joined.pid),
    ];
    let joined: Vec<_> = joined
        .into_iter()
        .filter_map(|(kind, path)| path.map(|path| json!({"type": kind, "path": path})))
        .collect();
    let settings = &handler.settings;
    let passed = (&*settings.pod_annotations, &settings.rules);
    let config = node.config();
    let policy = &config.containers.policy;
    Ok(json!({
        "annotations": spec::pod_annotations(&pod.config, pod.id.as_str(), passed, policy),
        "linux": {
            "namespaces": joined,
            "cgroupsPath": node.cgroups.parent(pod)?.oci_path(pod.id.as_str()),
        },
    }))
}

/// Reads the sandbox's state from a keeper's list.
pub fn take_over(node: &Arc<Node>, pod: &Arc<Pod>, listing: &[ContainerInfo]) {
    if let Some(info) = listing.iter().find(|info| info.id == pod.id.as_str()) {
        pod.set_shared(Shared::Runs);
        if info.exit.is_some() {
            ended(node, pod);
        }
    }
}

/// Marks the pod as not ready after its sandbox has exited, which ends all its containers.
pub fn ended(node: &Arc<Node>, pod: &Arc<Pod>) {
    if !pod.shared_ended() {
        return;
    }
    let (node_too, pod) = (Arc::clone(node), Arc::clone(pod));
    node.tasks.spawn(async move {
        if pod.phase() != Phase::Ready {
            return;
        }
        tracing::error!(pod = %pod.id, "the pod's sandbox has exited; the pod is not ready");
        keeper_events::note_down(&node_too, &pod).await;
        // The monitor may have been killed without the sandbox.
        let _turn = pod.turn.write().await;
        for container in node_too.containers.of(&pod) {
            if let Err(error) = process::stop(&node_too, &container, Duration::ZERO).await {
                tracing::warn!(container = %container.id, %error, "cannot stop a container of an exited sandbox");
            }
        }
        if let Err(error) = end(&node_too.cgroups, &node_too.runtimes, &pod).await {
            tracing::warn!(pod = %pod.id, %error, "cannot clean up the pod's sandbox; stopping the pod tries again");
        }
    });
}

/// Returns an error if the sandbox exited before the pod was ready.
pub fn check(pod: &Pod) -> Result<()> {
    match pod.now().shared {
        Shared::Down | Shared::Ended => Err(Error::Precondition(format!(
            "the sandbox of pod {} exited immediately",
            pod.id
        ))
        .into()),
        Shared::None | Shared::Runs => Ok(()),
    }
}

/// Stops the sandbox, if there is one.
pub async fn end(cgroups: &Cgroups, runtimes: &Runtimes, pod: &Pod) -> Result<()> {
    let Ok(handler) = runtimes.of(pod) else {
        return Ok(());
    };
    if !handler.settings.is_shim() {
        return Ok(());
    }
    // Otherwise its exit would be handled as a crash.
    pod.set_shared(Shared::None);
    let bundle = bundle(&pod.run);
    if !blocking(move || Ok(bundle.exists())).await? {
        return Ok(());
    }
    end_with(&handler, pod.id.as_str()).await?;
    if cgroups.remove_shim_task(pod).await? {
        // A dead shim's leftover process may have created its files again until now.
        end_with(&handler, pod.id.as_str()).await?;
    }
    Ok(())
}

/// Calls the runtime to stop a sandbox.
pub async fn end_with(handler: &Handler, pod: &str) -> Result<()> {
    let ended = handler.runtime.end_pod(pod, END_LIMIT).await;
    let left = ended.map_err(|source| {
        let doing = format!("stopping the sandbox of pod {pod}");
        Error::Launch { doing, source }
    })?;
    if !left.is_empty() {
        tracing::warn!(pod, left, "the pod's sandbox was not removed completely");
    }
    Ok(())
}
