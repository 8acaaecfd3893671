//! `GetState`: returns the state of the daemon, for debugging. It contains no secrets: of the clients' data it has only
//! names.

use orlop_cri_api::inspection::{GetStateRequest, GetStateResponse};
use serde_json::{Value, json};

use crate::engine::Engine;
use crate::error::Result;
use crate::node::Node;
use crate::node::cgroups::Cgroups;
use crate::nri;
use crate::record::container::Container;
use crate::record::pod::Pod;

/// Handles the `GetState` call.
pub async fn call(Engine(node): &Engine, _: GetStateRequest) -> Result<GetStateResponse> {
    let json = state(node).to_string();
    Ok(GetStateResponse { json })
}

impl Engine {
    /// Returns the state of the daemon as JSON.
    pub fn state(&self) -> Value {
        state(&self.0)
    }
}

fn state(node: &Node) -> Value {
    let pods = node.pods.all();
    let leases = node.images.leases();
    json!({
        "pods": pods.iter().map(|pod| state_of_pod(node, pod)).collect::<Vec<_>>(),
        "leases": leases.iter().map(|lease| json!({
            "owner": lease.owner,
            "image": lease.image.to_string(),
        })).collect::<Vec<_>>(),
        "pulls": node.pulls.under_way().into_iter().map(|(name, pull)| json!({
            "image": name,
            "started_at": pull.started_at,
            "waiters": pull.waiters,
        })).collect::<Vec<_>>(),
        "under_way": {
            "pods_being_made": node.sandboxes.count(),
            "containers_being_made": node.creations.count(),
            "other_work": node.works.count(),
            "commands": node.commands.count(),
            "tasks": node.tasks.len(),
        },
        "nri": nri::in_json(&node.nri),
        "event_subscribers": node.events.count(),
        "default_runtime": node.runtimes.default_name(),
        "cgroup_driver": format!("{:?}", node.cgroups.driver()).to_lowercase(),
    })
}

fn state_of_pod(node: &Node, pod: &Pod) -> Value {
    let metadata = pod.metadata();
    let now = pod.now();
    let containers = node.containers.of(pod);
    json!({
        "id": pod.id.as_str(),
        "name": metadata.name,
        "namespace": metadata.namespace,
        "uid": metadata.uid,
        "attempt": metadata.attempt,
        "phase": format!("{:?}", now.phase),
        "runtime": pod.runtime,
        "created_at": pod.created_at,
        "host_network": pod.host_network(),
        "ips": pod.ips(),
        // An attachment that was started and has no result is an intent.
        "network": match (&now.attachment, &now.network) {
            (None, _) => "none",
            (Some(_), None) => "begun",
            (Some(_), Some(_)) => "attached",
        },
        "keeper": now.keeper.as_ref().map(|keeper| json!({
            "pid": keeper.pid(),
            "protocol": keeper.version(),
            "connected": keeper.is_connected(),
        })),
        "selinux_level": now.selinux_level,
        "cgroup": node.cgroups.of_pod(pod).map(|cgroup| cgroup.path().to_string()),
        "containers": containers.iter().map(|one| state_of_container(&node.cgroups, one)).collect::<Vec<_>>(),
    })
}

fn state_of_container(cgroups: &Cgroups, container: &Container) -> Value {
    let metadata = container.metadata();
    let now = container.now();
    json!({
        "id": container.id.as_str(),
        "name": metadata.name,
        "attempt": metadata.attempt,
        "phase": format!("{:?}", now.phase),
        "image": container.image.id,
        "created_at": container.created_at,
        "started_at": now.started_at,
        "pid": now.pid,
        "stop_signal_sent": now.stop_sent,
        "to_be_cleaned_up": now.dirty,
        "exit": now.exit.map(|exit| json!({
            "at": exit.at,
            "code": exit.code,
            "reason": exit.reason,
        })),
        "cgroup": cgroups.of_container(container).map(|cgroup| cgroup.path().to_string()),
    })
}
