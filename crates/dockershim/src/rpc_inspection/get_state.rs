//! `GetState`: a dump of the service's state for debugging. It contains no secrets: of a client's input only names are
//! included.

use orlop_cri_api::inspection::{GetStateRequest, GetStateResponse};
use serde_json::{Value, json};

use crate::docker::Which;
use crate::docker::types::ContainerSummary;
use crate::error::{Error, Result, chain};
use crate::shim::Shim;
use crate::{find, labels, names};

pub(crate) async fn call(shim: &Shim, _: GetStateRequest) -> Result<GetStateResponse> {
    let json = shim.state().await?.to_string();
    Ok(GetStateResponse { json })
}

impl Shim {
    /// Returns the service's state as JSON.
    pub async fn state(&self) -> Result<Value> {
        let which = Which {
            labels: vec![labels::KIND.to_owned()],
            ..Which::default()
        };
        let listed = find::ours(&self.docker, &which).await;
        let listed = listed.map_err(Error::engine("listing pods and containers"));
        let checkpoints = self.checkpoints.ids().await?;
        let followed = self.logs.ids();
        let engine = match (self.docker.api().await, self.info.get().await) {
            (Ok(api), Ok(info)) => json!({
                "version": info.server_version,
                "api": api.to_string(),
                "cgroup_driver": info.cgroup_driver,
                "default_runtime": info.default_runtime,
            }),
            (Err(error), _) => json!({ "error": chain(&error) }),
            (_, Err(error)) => json!({ "error": chain(&*error) }),
        };
        let (pods, problem) = match &listed {
            Ok(listed) => (pods(listed, &followed), None),
            Err(error) => (Vec::new(), Some(chain(error))),
        };
        Ok(json!({
            "endpoint": self.docker.endpoint(),
            "engine": engine,
            "pods": pods,
            "pods_error": problem,
            "checkpoints": checkpoints,
            "logs_followed": followed.len(),
            "event_subscribers": self.events.subscribers.count(),
            "tasks": self.tasks.len(),
        }))
    }
}

fn pods(listed: &[ContainerSummary], followed: &[String]) -> Vec<Value> {
    let kind = |one: &ContainerSummary, kind: &str| {
        one.labels.get(labels::KIND).map(String::as_str) == Some(kind)
    };
    let sandboxes = listed.iter().filter(|one| kind(one, labels::SANDBOX));
    sandboxes
        .map(|sandbox| {
            let own = listed.iter().filter(|one| {
                kind(one, labels::CONTAINER)
                    && one.labels.get(labels::SANDBOX_ID) == Some(&sandbox.id)
            });
            let pod = sandbox
                .names
                .iter()
                .find_map(|name| names::sandbox_of(name));
            let pod = pod.unwrap_or_default();
            json!({
                "id": sandbox.id,
                "name": pod.name,
                "namespace": pod.namespace,
                "uid": pod.uid,
                "attempt": pod.attempt,
                "state": sandbox.state,
                "containers": own.map(|one| container(one, followed)).collect::<Vec<_>>(),
            })
        })
        .collect()
}

fn container(listed: &ContainerSummary, followed: &[String]) -> Value {
    let metadata = listed
        .names
        .iter()
        .find_map(|name| names::container_of(name));
    let metadata = metadata.unwrap_or_default();
    json!({
        "id": listed.id,
        "name": metadata.name,
        "attempt": metadata.attempt,
        "state": listed.state,
        "image": listed.image,
        "log": listed.labels.get(labels::LOG_PATH),
        "log_followed": followed.contains(&listed.id),
    })
}
