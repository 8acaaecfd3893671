//! Lifecycle events at which NRI plugins are asked or notified.
//!
//! The messages are large. The futures that hold them are boxed, so that operations stay small if no plugin listens.

use std::sync::Arc;
use std::time::Duration;

use orlop_cri_api::v1::LinuxContainerResources;
use orlop_nri::Event;
use orlop_nri::Nri;
use orlop_nri::v1alpha1::{
    Container as ContainerView, ContainerEviction, ContainerUpdate, LinuxResources, PodSandbox,
};
use orlop_oci_types as oci;

use super::view;
use crate::container::{limits, process};
use crate::error::{Error, Result, chain};
use crate::node::Node;
use crate::record::container::{Container, Effective, Phase, Told};
use crate::record::pod::{self, Pod};
use crate::{blocking, spec};

/// Notifies plugins that a pod is complete; they may reject it.
pub async fn pod_running(node: &Node, pod: &Arc<Pod>) -> Result<()> {
    pod.tell(|told| told.running = true);
    if !node.nri.wants(Event::RunPodSandbox) {
        return Ok(());
    }
    let told = Box::pin(node.nri.run_pod(view::pod(&node.cgroups, &node.paths, pod)));
    told.await.map_err(refused)
}

/// Notifies plugins that a pod's resources are about to change; they may reject the change.
pub async fn pod_updating(
    node: &Node,
    pod: &Arc<Pod>,
    overhead: Option<&LinuxContainerResources>,
    resources: Option<&LinuxContainerResources>,
) -> Result<()> {
    if !node.nri.wants(Event::UpdatePodSandbox) {
        return Ok(());
    }
    let told = Box::pin(node.nri.update_pod(
        view::pod(&node.cgroups, &node.paths, pod),
        overhead.map(view::resources_of_request),
        resources.map(view::resources_of_request),
    ));
    told.await.map_err(refused)
}

/// Notifies plugins that a pod's resources have changed.
pub async fn post_pod_updated(node: &Node, pod: &Arc<Pod>) {
    if node.nri.wants(Event::PostUpdatePodSandbox) {
        let told = Box::pin(
            node.nri
                .post_update_pod(view::pod(&node.cgroups, &node.paths, pod)),
        );
        note(pod.id.as_str(), told.await);
    }
}

/// Notifies plugins, once, that a pod's containers have ended while its network still exists.
pub async fn pod_stopped(node: &Node, pod: &Arc<Pod>) {
    let ready = pod.phase() == pod::Phase::Ready;
    let due =
        pod.tell(|told| (ready || told.running) && !std::mem::replace(&mut told.stopped, true));
    if due && node.nri.wants(Event::StopPodSandbox) {
        let told = Box::pin(
            node.nri
                .stop_pod(view::pod(&node.cgroups, &node.paths, pod)),
        );
        note(pod.id.as_str(), told.await);
    }
}

/// Notifies plugins that a pod is removed.
pub async fn pod_removed(node: &Node, pod: &Arc<Pod>) {
    if node.nri.wants(Event::RemovePodSandbox) {
        let told = Box::pin(
            node.nri
                .remove_pod(view::pod(&node.cgroups, &node.paths, pod)),
        );
        note(pod.id.as_str(), told.await);
    }
}

/// Asks plugins for adjustments of a container that is about to be created, and applies them. Also applies the updates
/// and evictions of other containers that they request.
pub async fn adjust(
    node: &Arc<Node>,
    container: &Arc<Container>,
    spec: oci::Spec,
    effective: Effective,
) -> Result<(oci::Spec, Effective)> {
    let pod = view::pod(&node.cgroups, &node.paths, &container.pod);
    let own = view::container(container, Some(&spec));
    let created = node.nri.create(pod, own).await.map_err(refused)?;
    for (plugin, eviction) in created.evictions {
        evict(node, &plugin, vec![eviction]).await;
    }
    apply_updates(node, "NRI plugins at container creation", created.updates).await;
    let (node, container) = (Arc::clone(node), Arc::clone(container));
    blocking(move || {
        let mut adjusted = spec;
        let handler = node.runtimes.of(&container.pod)?;
        let facts = spec::AdjustFacts {
            host: &node.host,
            policy: &node.config().containers.policy,
            features: &handler.features,
        };
        let warnings = spec::adjust(&created.adjust, &facts, &mut adjusted).map_err(Error::Spec)?;
        for warning in warnings {
            tracing::warn!(container = %container.id, "{warning}");
        }
        let linux = adjusted.linux.clone().unwrap_or_default();
        let process = adjusted.process.as_ref();
        let score = process.and_then(|process| process.oom_score_adj);
        let resources = linux.resources.unwrap_or_default();
        let wanted = created.adjust.linux.unwrap_or_default().cgroups_path;
        let effective = Effective {
            resources: spec::report_resources(&resources, score),
            cgroups_path: (!wanted.is_empty()).then_some(wanted),
            ..effective
        };
        Ok((adjusted, effective))
    })
    .await
}

/// Notifies plugins that a container they were asked about was not created after all.
pub async fn undone(node: &Node, container: &Arc<Container>) {
    container_stopped(node, container).await;
    let farewell = farewell(node, container).await;
    container_removed(&node.nri, container, farewell).await;
}

/// Notifies plugins that a container was created.
pub async fn post_created(node: &Node, container: &Arc<Container>) {
    tell(node, container, Event::PostCreateContainer).await;
}

/// Notifies plugins that a container is about to start; they may reject it.
pub async fn starting(node: &Node, container: &Arc<Container>) -> Result<()> {
    let event = Event::StartContainer;
    if !node.nri.wants(event) {
        return Ok(());
    }
    let told = Box::pin(ask(node, container, event));
    told.await.map_err(refused)
}

/// Notifies plugins that a container has started.
pub async fn post_started(node: &Node, container: &Arc<Container>) {
    tell(node, container, Event::PostStartContainer).await;
}

/// Asks plugins about a change of a container's resources. Returns the resources to apply instead, if they want others.
/// Applies the updates and evictions of other containers that they request.
pub async fn updating(
    node: &Node,
    container: &Arc<Container>,
    asked: &LinuxContainerResources,
) -> Result<Option<LinuxResources>> {
    if !node.nri.wants(Event::UpdateContainer) {
        return Ok(None);
    }
    Box::pin(async move {
        let (pod, own) = view::both(&node.cgroups, &node.paths, container).await;
        let asked = view::resources_of_request(asked);
        let updated = node.nri.update(pod, own, asked).await.map_err(refused)?;
        for (plugin, eviction) in updated.evictions {
            evict(node, &plugin, vec![eviction]).await;
        }
        apply_updates(node, "NRI plugins at container update", updated.updates).await;
        Ok(updated.resources)
    })
    .await
}

/// Notifies plugins that a container's resources have changed.
pub async fn post_updated(node: &Node, container: &Arc<Container>) {
    tell(node, container, Event::PostUpdateContainer).await;
}

/// Notifies plugins, once, that a container has ended or will never start. Waits until they know of its start.
pub async fn container_stopped(node: &Node, container: &Arc<Container>) {
    let mut told = container.told.lock().await;
    stopped_while_told(node, container, &mut told).await;
}

/// Like [`container_stopped`], for a caller that already holds the lock on `told`.
pub async fn stopped_while_told(node: &Node, container: &Arc<Container>, told: &mut Told) {
    if std::mem::replace(&mut told.stopped, true) || !node.nri.wants(Event::StopContainer) {
        return;
    }
    Box::pin(async move {
        let (pod, own) = view::both(&node.cgroups, &node.paths, container).await;
        match node.nri.stop_container(pod, own).await {
            Ok(updates) => {
                apply_updates(node, "NRI plugins at container stop", updates).await;
            }
            Err(error) => note(container.id.as_str(), Err(error)),
        }
    })
    .await;
}

/// Reads the plugins' view of a container that is about to be removed, because removal deletes its files.
pub async fn farewell(node: &Node, container: &Arc<Container>) -> Option<Farewell> {
    if !node.nri.wants(Event::RemoveContainer) {
        return None;
    }
    let both =
        Box::pin(async move { Box::new(view::both(&node.cgroups, &node.paths, container).await) });
    Some(Farewell(both.await))
}

/// The plugins' view of a container that is about to be removed.
pub struct Farewell(Box<(PodSandbox, ContainerView)>);

/// Notifies plugins that a container is removed.
pub async fn container_removed(nri: &Nri, container: &Arc<Container>, farewell: Option<Farewell>) {
    if let Some(Farewell(both)) = farewell {
        let told = Box::pin(async move {
            let (pod, own) = *both;
            let event = Event::RemoveContainer;
            nri.container(event, pod, own).await
        });
        note(container.id.as_str(), told.await);
    }
}

async fn tell(node: &Node, container: &Arc<Container>, event: Event) {
    if node.nri.wants(event) {
        let told = Box::pin(ask(node, container, event));
        note(container.id.as_str(), told.await);
    }
}

async fn ask(node: &Node, container: &Arc<Container>, event: Event) -> orlop_nri::Result<()> {
    let (pod, own) = view::both(&node.cgroups, &node.paths, container).await;
    node.nri.container(event, pod, own).await
}

/// Applies the container updates that a plugin requests. Returns the updates that failed although the plugin did not
/// set `ignore_failure`. An update of a missing or exited container does nothing.
pub async fn apply_updates(
    node: &Node,
    by: &str,
    updates: Vec<ContainerUpdate>,
) -> Vec<ContainerUpdate> {
    let mut failed = Vec::new();
    for update in updates {
        if let Err(error) = apply_update(node, &update).await {
            let problem = chain(&*error);
            let container = &update.container_id;
            if update.ignore_failure {
                tracing::debug!(container, by, problem, "an update by an NRI plugin failed");
            } else {
                tracing::warn!(container, by, problem, "an update by an NRI plugin failed");
                failed.push(update);
            }
        }
    }
    failed
}

async fn apply_update(node: &Node, update: &ContainerUpdate) -> Result<()> {
    let Some(container) = node.containers.exactly(&update.container_id) else {
        return Ok(());
    };
    let wanted = update.linux.as_ref();
    let Some(wanted) = wanted.and_then(|linux| linux.resources.as_ref()) else {
        return Ok(());
    };
    let _turn = container.turn.lock().await;
    if !matches!(container.phase(), Phase::Created | Phase::Running) {
        return Ok(());
    }
    let change = limits::of_plugin(&node.host, &container, wanted)?;
    limits::change(&node.cgroups, &node.runtimes, &container, &change).await
}

/// Stops the containers that a plugin evicts.
pub async fn evict(node: &Node, plugin: &str, evictions: Vec<ContainerEviction>) {
    for ContainerEviction {
        container_id,
        reason,
    } in evictions
    {
        let Some(container) = node.containers.exactly(&container_id) else {
            continue;
        };
        tracing::warn!(
            container = container_id,
            plugin,
            reason,
            "stopping a container because an NRI plugin evicts it"
        );
        if let Err(error) = process::stop(node, &container, Duration::ZERO).await {
            let problem = chain(&*error);
            tracing::warn!(
                container = container_id,
                plugin,
                problem,
                "cannot evict a container"
            );
        }
    }
}

fn refused(error: orlop_nri::Error) -> Arc<Error> {
    Arc::new(Error::Plugins(error))
}

/// Logs an error of a plugin about an event that has already happened and is not undone.
fn note(of: &str, told: orlop_nri::Result<()>) {
    if let Err(error) = told {
        tracing::warn!(of, problem = chain(&error), "cannot notify an NRI plugin");
    }
}
