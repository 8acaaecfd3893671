//! Finds resources that belong to no pod.
//!
//! A pod has resources before it is registered. So resources without an owner are checked again a little later.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::Finding;
use crate::after_restart::tidy;
use crate::blocking;
use crate::error::{Error, Result, chain};
use crate::node::Node;
use crate::node::paths::Paths;
use crate::pod::teardown;
use crate::record::directories::remove_tree;
use crate::record::ids::{ContainerId, PodId};
use crate::record::pod;
use crate::record::pods::Pods;

const AREA: &str = "orphans";

/// Pause before the second check; new pods and containers are registered much earlier.
const SECOND_LOOK: Duration = Duration::from_millis(500);

/// Time limit for a runtime to delete a container that does not run.
const DELETE_LIMIT: Duration = Duration::from_secs(30);

/// A resource without an owner.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Orphan {
    /// A pod's volatile directory, and the keeper that may run there.
    Keeper(String),
    /// A pinned network namespace.
    NetworkNamespace(String),
    /// A pod's cgroup without processes.
    Cgroup(String),
    /// A runtime's state of a container.
    RuntimeState { runtime: String, container: String },
    /// A path where a keeper mounted a filesystem for a container or pod.
    MountPoint(PathBuf),
    /// A lease on an image.
    Lease(String),
    /// A network attachment.
    Network(String),
}

/// Finds resources that belong to no pod, and removes them if `repair` is set.
pub(crate) async fn examine(node: &Arc<Node>, repair: bool) -> Result<Vec<Finding>> {
    let first = find(node).await?;
    let orphans = if first.is_empty() {
        first
    } else {
        tokio::time::sleep(SECOND_LOOK).await;
        let second = find(node).await?;
        first.intersection(&second).cloned().collect()
    };
    let mut findings = Vec::new();
    for orphan in orphans {
        node.metrics.leak(orphan.kind());
        let remedy = "run `orlop doctor --repair`";
        let mut finding = Finding::problem(AREA, orphan.text(), remedy);
        if repair {
            match orphan.end(node).await {
                Ok(()) => finding.repaired = true,
                Err(error) => finding.remedy = format!("remove it manually: {}", chain(&*error)),
            }
        }
        findings.push(finding);
    }
    findings.extend(unread(&node.paths, &node.pods).await?);
    findings.extend(stuck(node, repair).await);
    if findings.is_empty() {
        findings.push(Finding::ok(
            AREA,
            "no orphaned resources; everything belongs to a pod",
        ));
    }
    Ok(findings)
}

async fn find(node: &Arc<Node>) -> Result<BTreeSet<Orphan>> {
    let on_disk = Arc::clone(node);
    let mut orphans = blocking(move || Ok(find_on_disk(&on_disk))).await?;
    let known = Known::of(node).await?;
    for lease in node.images.leases() {
        let container = lease.owner.split('/').next().unwrap_or_default();
        if !known.containers.contains(container) {
            orphans.insert(Orphan::Lease(lease.owner));
        }
    }
    let is_valid = move |id: &orlop_network::ContainerId| known.pods.contains(id.as_str());
    match node.networks.orphans(is_valid).await {
        Ok(found) => {
            let networks = found
                .iter()
                .map(|orphan| Orphan::Network(orphan.id.as_str().to_owned()));
            orphans.extend(networks);
        }
        Err(error) => {
            tracing::warn!(%error, "cannot list network attachments that belong to no pod");
        }
    }
    Ok(orphans)
}

/// IDs of pods and containers that may own resources, including those with unreadable records.
struct Known {
    pods: BTreeSet<String>,
    containers: BTreeSet<String>,
}

impl Known {
    async fn of(node: &Arc<Node>) -> Result<Self> {
        let node = Arc::clone(node);
        blocking(move || Ok(Self::look(&node))).await
    }

    fn look(node: &Node) -> Self {
        let mut known = Self {
            pods: node
                .pods
                .all()
                .iter()
                .map(|pod| pod.id.to_string())
                .collect(),
            containers: BTreeSet::new(),
        };
        for name in names_in(&node.paths.pods()) {
            let containers = node.paths.pods().join(&name).join("containers");
            known.containers.extend(names_in(&containers));
            known.pods.insert(name);
        }
        let containers = node.containers.all();
        let ids = containers.iter().map(|container| container.id.to_string());
        known.containers.extend(ids);
        known
    }
}

fn find_on_disk(node: &Node) -> BTreeSet<Orphan> {
    let mut orphans = BTreeSet::new();
    let state = &node.config().state;
    // Known IDs are read last, so that pods created meanwhile are included.
    let runs = names_in(&node.paths.runs());
    let pins = names_in(&state.join("netns"));
    let cgroups = node.cgroups.pods();
    let mut containers = Vec::new();
    for handler in node.runtimes.everything() {
        // A configured directory may contain containers of other programs.
        if !handler.runtime.root.starts_with(state) {
            continue;
        }
        for name in names_in(&handler.runtime.root) {
            if ContainerId::parse(&name).is_some() {
                containers.push((handler.name.clone(), name));
            }
        }
    }
    let private = state.join("private");
    let roots = names_in(&private.join("rootfs"));
    let shms = names_in(&private.join("shm"));
    let known = Known::look(node);
    let no_pod = |name: &String| PodId::parse(name).is_some() && !known.pods.contains(name);
    orphans.extend(runs.into_iter().filter(no_pod).map(Orphan::Keeper));
    orphans.extend(
        pins.into_iter()
            .filter(no_pod)
            .map(Orphan::NetworkNamespace),
    );
    for (id, cgroup) in cgroups {
        // A cgroup with processes may belong to another daemon on this host.
        let empty = cgroup
            .processes()
            .is_ok_and(|processes| processes.is_empty());
        if empty && !known.pods.contains(id.as_str()) {
            orphans.insert(Orphan::Cgroup(id.to_string()));
        }
    }
    for (runtime, container) in containers {
        if !known.containers.contains(&container) {
            orphans.insert(Orphan::RuntimeState { runtime, container });
        }
    }
    for name in shms.into_iter().filter(no_pod) {
        orphans.insert(Orphan::MountPoint(private.join("shm").join(name)));
    }
    for name in roots {
        if ContainerId::parse(&name).is_some() && !known.containers.contains(&name) {
            orphans.insert(Orphan::MountPoint(private.join("rootfs").join(name)));
        }
    }
    orphans
}

fn names_in(directory: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

impl Orphan {
    fn kind(&self) -> &'static str {
        match self {
            Self::Keeper(_) => "keeper",
            Self::NetworkNamespace(_) => "netns",
            Self::Cgroup(_) => "cgroup",
            Self::RuntimeState { .. } => "runtime",
            Self::MountPoint(_) => "directory",
            Self::Lease(_) => "lease",
            Self::Network(_) => "network",
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Keeper(pod) => format!("a keeper directory without a pod: {pod}"),
            Self::NetworkNamespace(pod) => format!("a network namespace without a pod: {pod}"),
            Self::Cgroup(pod) => format!("an empty cgroup without a pod: {pod}"),
            Self::RuntimeState { runtime, container } => {
                format!("a container of runtime {runtime} without a record: {container}")
            }
            Self::MountPoint(path) => {
                format!("a mount point without a container: {}", path.display())
            }
            Self::Lease(owner) => format!("an image lease without a container: {owner}"),
            Self::Network(pod) => format!("IP addresses without a pod: {pod}"),
        }
    }

    async fn end(&self, node: &Arc<Node>) -> Result<()> {
        match self {
            Self::Keeper(pod) => tidy::end_unknown_keeper(node, pod).await,
            Self::NetworkNamespace(pod) => {
                let pin = node.paths.net_pins().join(pod);
                blocking(move || {
                    orlop_launch::remove_pin(&pin).map_err(|source| {
                        let doing = "removing a network namespace".into();
                        Error::Launch { doing, source }.into()
                    })
                })
                .await
            }
            Self::Cgroup(pod) => {
                let cgroups = node.cgroups.pods().into_iter();
                for (_, cgroup) in cgroups.filter(|(id, _)| id.as_str() == pod) {
                    node.cgroups.remove_empty(cgroup).await?;
                }
                Ok(())
            }
            Self::RuntimeState { runtime, container } => {
                let mut handlers = node.runtimes.everything().into_iter();
                let Some(handler) = handlers.find(|handler| handler.name == *runtime) else {
                    return Ok(());
                };
                let deleted = handler.runtime.delete(container, DELETE_LIMIT).await;
                deleted.map_err(|source| {
                    let doing = format!("deleting container {container}");
                    Error::Launch { doing, source }.into()
                })
            }
            Self::MountPoint(path) => {
                let path = path.clone();
                blocking(move || remove_tree(&path)).await
            }
            Self::Lease(owner) => {
                let freed = node.images.release(owner).await;
                let freed = freed.map_err(|source| {
                    let doing = format!("releasing the image lease {owner}");
                    Error::Image { doing, source }
                })?;
                node.metrics.freed(&freed);
                Ok(())
            }
            Self::Network(_) => {
                let known = Known::of(node).await?;
                let is_valid =
                    move |id: &orlop_network::ContainerId| known.pods.contains(id.as_str());
                let collected = node.networks.gc(is_valid).await;
                collected.map(drop).map_err(|source| {
                    let doing = "releasing network attachments".into();
                    Error::Network { doing, source }.into()
                })
            }
        }
    }
}

/// Finds records that the daemon could not read at its start.
async fn unread(paths: &Paths, pods: &Pods) -> Result<Vec<Finding>> {
    let directory = paths.pods();
    let listed = directory.clone();
    let names = blocking(move || Ok(names_in(&listed))).await?;
    let unread = names.into_iter().filter(|name| !pods.contains(name));
    let finding = |name: String| {
        let path = directory.join(&name);
        // A pod that is just being removed is gone at this check.
        path.exists().then(|| {
            Finding::problem(
                AREA,
                format!("cannot read the record of pod {name}; the pod is not managed"),
                format!(
                    "run the newer version of orlop that wrote it, or restore {} from a backup",
                    path.display()
                ),
            )
        })
    };
    Ok(unread.filter_map(finding).collect())
}

/// Finds pods whose removal was started but not finished, and pods that lost their keeper unnoticed.
async fn stuck(node: &Node, repair: bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for pod in node.pods.all() {
        let keeper = pod.now().keeper;
        let connected = keeper.is_some_and(|keeper| keeper.is_connected());
        match pod.phase() {
            pod::Phase::Removing => {
                let text = format!("the removal of pod {} was started but not finished", pod.id);
                let remedy = "run `orlop doctor --repair`, or run `orlop rmp` for this pod";
                let mut finding = Finding::warning(AREA, text, remedy);
                if repair {
                    match teardown::remove(node, &pod).await {
                        Ok(()) => finding.repaired = true,
                        Err(error) => {
                            finding.remedy = format!("remove it manually: {}", chain(&*error));
                        }
                    }
                }
                findings.push(finding);
            }
            pod::Phase::Ready if !connected => findings.push(Finding::problem(
                AREA,
                format!("the keeper of pod {} does not respond", pod.id),
                "stop the pod; its client creates it again",
            )),
            _ => {}
        }
    }
    findings
}
