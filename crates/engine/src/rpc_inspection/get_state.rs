//! `GetState`: all that the daemon knows, for people who debug it. Nothing of it is secret:
//! whatever a client sent beyond names stays out.

use orlop_cri::inspection::{GetStateRequest, GetStateResponse};
use orlop_nri::Listen;
use serde_json::{Value, json};

use crate::container::Container;
use crate::engine::Engine;
use crate::error::Result;
use crate::pod::Pod;

/// Answers the call.
pub async fn call(engine: &Engine, _: GetStateRequest) -> Result<GetStateResponse> {
    let json = engine.state().to_string();
    Ok(GetStateResponse { json })
}

impl Engine {
    /// All that is known, as JSON.
    pub fn state(&self) -> Value {
        let pods = self.pods.all();
        let leases = self.images.leases();
        json!({
            "pods": pods.iter().map(|pod| self.state_of_pod(pod)).collect::<Vec<_>>(),
            "leases": leases.iter().map(|lease| json!({
                "owner": lease.owner,
                "image": lease.image.to_string(),
            })).collect::<Vec<_>>(),
            "pulls": self.pulls.under_way().into_iter().map(|(name, pull)| json!({
                "image": name,
                "started_at": pull.started_at,
                "waiters": pull.waiters,
            })).collect::<Vec<_>>(),
            "under_way": {
                "pods_being_made": self.sandboxes.count(),
                "containers_being_made": self.creations.count(),
                "other_work": self.works.count(),
                "commands": self.execs.count(),
                "tasks": self.tasks.len(),
            },
            "nri": self.state_of_plugins(),
            "event_subscribers": self.events.count(),
            "default_runtime": self.runtimes.default_name(),
            "cgroup_driver": format!("{:?}", self.cgroup_driver).to_lowercase(),
        })
    }

    /// The plugins that take part.
    pub fn state_of_plugins(&self) -> Value {
        let Some(config) = self.nri.config() else {
            return json!({ "enabled": false });
        };
        let plugins = self.nri.list().into_iter();
        json!({
            "enabled": true,
            "version": orlop_nri::VERSION,
            "socket": match &config.listen {
                Listen::At(path) if self.nri.is_listening() => Some(path),
                _ => None,
            },
            "plugins": plugins.map(|plugin| json!({
                "index": plugin.index,
                "name": plugin.name,
                "version": plugin.version,
                "pid": plugin.pid,
                "launched": plugin.launched,
            })).collect::<Vec<_>>(),
        })
    }

    fn state_of_pod(&self, pod: &Pod) -> Value {
        let metadata = pod.metadata();
        let now = pod.now();
        let containers = self.containers_of(pod);
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
            // An attachment that was begun and has no result is an intent.
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
            "cgroup": self.cgroups.of_pod(pod).map(|cgroup| cgroup.path().to_string()),
            "containers": containers.iter().map(|one| self.state_of_container(one)).collect::<Vec<_>>(),
        })
    }

    fn state_of_container(&self, container: &Container) -> Value {
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
            "cgroup": self.cgroups.of_container(container).map(|cgroup| cgroup.path().to_string()),
        })
    }
}
