//! What the containers of some pods share beside their namespaces: a virtual machine, a kernel of
//! gVisor's, the process of a shim.
//!
//! It is made with the pod, and is to the pod's keeper a container of the pod's own name: who watches
//! over it is that container's process. So its end is told as any other, whoever sees it.

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

/// One that has not come up by then is ended.
const BOOT_LIMIT: Duration = Duration::from_secs(100);

/// One that has not ended by then is stuck with what it runs.
const END_LIMIT: Duration = Duration::from_mins(1);

/// Makes it, where the pod's runtime wants it.
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
    // Its end may be told before the answer.
    pod.set_shared(Shared::Runs);
    let created = keeper.create(&handler.runtime, &create, BOOT_LIMIT).await;
    created.map(drop).map_err(|source| {
        let doing = format!("creating the sandbox of pod {}", pod.id);
        Error::Launch { doing, source }.into()
    })
}

/// Where it is described, in the pod's volatile directory: what is not there was never begun.
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

/// What the pod is to whoever makes its sandbox; the program in it is theirs.
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

/// Learns from what a keeper lists how it is with it.
pub fn take_over(node: &Arc<Node>, pod: &Arc<Pod>, listing: &[ContainerInfo]) {
    if let Some(info) = listing.iter().find(|info| info.id == pod.id.as_str()) {
        pod.set_shared(Shared::Runs);
        if info.exit.is_some() {
            ended(node, pod);
        }
    }
}

/// It has ended by itself, and what ran in it with it: the pod is down.
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
        // Who watched over it may have been killed, and not what it watched over.
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

/// Whether it has ended before the pod could be said to be ready.
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

/// Ends it, as far as it is there.
pub async fn end(cgroups: &Cgroups, runtimes: &Runtimes, pod: &Pod) -> Result<()> {
    let Ok(handler) = runtimes.of(pod) else {
        return Ok(());
    };
    if !handler.settings.is_shim() {
        return Ok(());
    }
    // Without this its end would be taken for an accident.
    pod.set_shared(Shared::None);
    let bundle = bundle(&pod.run);
    if !blocking(move || Ok(bundle.exists())).await? {
        return Ok(());
    }
    end_with(&handler, pod.id.as_str()).await?;
    if cgroups.remove_shim_task(pod).await? {
        // What a dead shim had begun may have made its files anew until now.
        end_with(&handler, pod.id.as_str()).await?;
    }
    Ok(())
}

/// Has the runtime end it.
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
