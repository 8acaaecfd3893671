//! The list of pods.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use orlop_cri_api::client::{ClientError, RuntimeClient};
use orlop_cri_api::v1::{
    Container, ContainerState, ContainerStatus, NamespaceMode, PodSandbox, PodSandboxState,
    PodSandboxStatus, RuntimeHandler,
};
use serde_json::{Value, json};

use super::late::Late;
use super::owner::owner;
use super::time::moment;
use crate::asked::{AskError, soon};
use crate::bounded::{MOST, MOST_PODS, cut, filled, map};

/// Lists pods, and caches data that does not change within a state.
pub(super) struct Pods {
    client: RuntimeClient,
    containers: HashMap<String, (i32, Value)>,
    networks: HashMap<String, (i32, Network)>,
    late: Late,
}

/// Data from the last list of pods.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) pods: usize,
    pub(super) containers: usize,
    /// Pod of each container.
    pub(super) pod_of: HashMap<String, String>,
    /// Name of each container.
    pub(super) names: HashMap<String, String>,
    /// Name and namespace of each pod.
    pub(super) pod_names: HashMap<String, (String, String)>,
}

/// Timeout of a call for one object, during which the others wait.
const PATIENCE: Duration = Duration::from_secs(3);

/// Network data of a pod.
#[derive(Debug, Clone, Default)]
pub(crate) struct Network {
    pub(crate) ips: Vec<String>,
    pub(crate) is_hosts: bool,
}

impl Network {
    pub(crate) fn of(status: &PodSandboxStatus) -> Self {
        let mut ips = Vec::new();
        if let Some(network) = &status.network {
            let more = network.additional_ips.iter().map(|ip| ip.ip.as_str());
            let all = std::iter::once(network.ip.as_str()).chain(more);
            let all = all.filter(|ip| !ip.is_empty()).take(MOST);
            ips = all.map(|ip| cut(ip).to_owned()).collect();
        }
        let linux = status.linux.as_ref();
        let namespaces = linux.and_then(|linux| linux.namespaces.as_ref()?.options.as_ref());
        let is_hosts = namespaces.is_some_and(|of| of.network() == NamespaceMode::Node);
        Self { ips, is_hosts }
    }
}

impl Pods {
    pub(super) fn new(client: RuntimeClient) -> Self {
        Self {
            client,
            containers: HashMap::new(),
            networks: HashMap::new(),
            late: Late::default(),
        }
    }

    /// Returns the list for the pages, and the data derived from it.
    pub(super) async fn look(&mut self) -> Result<(String, Seen), AskError> {
        let mut pods = self.client.list_pod_sandbox(None).await?;
        let containers = self.client.list_containers(None).await?;
        pods.sort_by(|a, b| a.created_at.cmp(&b.created_at).then(a.id.cmp(&b.id)));
        pods.truncate(MOST_PODS);
        let mut seen = Seen {
            pods: pods.len(),
            containers: containers.len(),
            ..Seen::default()
        };
        let mut by_pod: HashMap<&str, Vec<&Container>> = HashMap::new();
        for container in &containers {
            let pod = container.pod_sandbox_id.as_str();
            by_pod.entry(pod).or_default().push(container);
            seen.pod_of.insert(container.id.clone(), pod.to_owned());
            let name = container.metadata.as_ref().map(|its| its.name.clone());
            seen.names
                .insert(container.id.clone(), name.unwrap_or_default());
        }
        self.containers.retain(|id, _| seen.pod_of.contains_key(id));
        let ids: HashSet<&str> = pods.iter().map(|pod| pod.id.as_str()).collect();
        let is_there = |id: &str| ids.contains(id) || seen.pod_of.contains_key(id);
        self.late.begin(is_there);
        self.networks.retain(|id, _| is_there(id));
        let mut told = Vec::with_capacity(pods.len());
        for pod in &pods {
            let network = self.network(pod).await?;
            let mut own = by_pod.remove(pod.id.as_str()).unwrap_or_default();
            own.sort_by(|a, b| a.created_at.cmp(&b.created_at).then(a.id.cmp(&b.id)));
            // Only the latest instances are kept.
            let from = own.len().saturating_sub(MOST);
            let mut containers = Vec::new();
            for container in &own[from..] {
                containers.push(self.container(container).await?);
            }
            told.push(pod_json(pod, &network, containers));
            let metadata = pod.metadata.clone().unwrap_or_default();
            let name = (metadata.name, metadata.namespace);
            seen.pod_names.insert(pod.id.clone(), name);
        }
        Ok((json!({ "pods": told }).to_string(), seen))
    }

    async fn network(&mut self, pod: &PodSandbox) -> Result<Network, AskError> {
        let is_ready = pod.state() == PodSandboxState::SandboxReady;
        if let Some((state, network)) = self.networks.get(&pod.id)
            && *state == pod.state
            // A new pod may get its address later.
            && (!is_ready || network.is_hosts || !network.ips.is_empty())
        {
            return Ok(network.clone());
        }
        let call = self.client.pod_sandbox_status(&pod.id, false);
        let Some(answer) = known(&mut self.late, &pod.id, call).await? else {
            return Ok(Network::default());
        };
        let network = Network::of(&answer.status.unwrap_or_default());
        let noted = (pod.state, network.clone());
        self.networks.insert(pod.id.clone(), noted);
        Ok(network)
    }

    async fn container(&mut self, container: &Container) -> Result<Value, AskError> {
        if let Some((state, told)) = self.containers.get(&container.id)
            && *state == container.state
        {
            return Ok(told.clone());
        }
        let call = self.client.container_status(&container.id, false);
        let Some(answer) = known(&mut self.late, &container.id, call).await? else {
            return Ok(container_json(&of_list(container)));
        };
        let status = answer.status.unwrap_or_default();
        let (state, told) = (status.state, container_json(&status));
        let noted = (state, told.clone());
        self.containers.insert(container.id.clone(), noted);
        Ok(told)
    }
}

/// Returns `None` if the object is gone or the call timed out; fails if the endpoint is gone.
async fn known<T>(
    late: &mut Late,
    id: &str,
    call: impl Future<Output = Result<T, ClientError>>,
) -> Result<Option<T>, AskError> {
    if !late.may_ask(id) {
        return Ok(None);
    }
    match soon(PATIENCE, call).await {
        Ok(answer) => {
            late.forget(id);
            Ok(Some(answer))
        }
        Err(error) if error.is_gone() => Err(error),
        Err(error) => {
            if error.is_late() {
                tracing::debug!(id, %error, "the endpoint is too slow for this object; skipping it for a while");
                late.note(id);
            }
            Ok(None)
        }
    }
}

/// Converts a list entry to a container status.
fn of_list(container: &Container) -> ContainerStatus {
    ContainerStatus {
        id: container.id.clone(),
        metadata: container.metadata.clone(),
        image: container.image.clone(),
        image_ref: container.image_ref.clone(),
        image_id: container.image_id.clone(),
        state: container.state,
        created_at: container.created_at,
        ..ContainerStatus::default()
    }
}

/// Formats a pod for the page.
pub(crate) fn pod_json(pod: &PodSandbox, network: &Network, containers: Vec<Value>) -> Value {
    let metadata = pod.metadata.clone().unwrap_or_default();
    let owner = owner(&metadata.name, &pod.labels, &pod.annotations);
    let state = match pod.state() {
        PodSandboxState::SandboxReady => "ready",
        PodSandboxState::SandboxNotready => "notready",
    };
    json!({
        "id": pod.id,
        "name": cut(&metadata.name),
        "namespace": cut(&metadata.namespace),
        "uid": cut(&metadata.uid),
        "attempt": metadata.attempt,
        "created": moment(pod.created_at),
        "state": state,
        "handler": cut(&pod.runtime_handler),
        "labels": map(&pod.labels),
        "owner": owner.map(|(kind, name)| json!({ "kind": kind, "name": cut(&name) })),
        "ips": network.ips,
        "host_network": network.is_hosts,
        "containers": containers,
    })
}

/// Formats a container for the page.
pub(crate) fn container_json(status: &ContainerStatus) -> Value {
    let metadata = status.metadata.clone().unwrap_or_default();
    let image = status.image.as_ref();
    let (named, id) = image.map_or(("", ""), |image| {
        (image.user_specified_image.as_str(), image.image.as_str())
    });
    let state = match status.state() {
        ContainerState::ContainerCreated => "created",
        ContainerState::ContainerRunning => "running",
        ContainerState::ContainerExited => "exited",
        ContainerState::ContainerUnknown => "unknown",
    };
    let is_over = status.state() == ContainerState::ContainerExited;
    let image_id = if status.image_id.is_empty() {
        &status.image_ref
    } else {
        &status.image_id
    };
    json!({
        "id": status.id,
        "name": cut(&metadata.name),
        "image": cut(if named.is_empty() { id } else { named }),
        "image_id": cut(image_id),
        "state": state,
        "attempt": metadata.attempt,
        "created": moment(status.created_at),
        "started": moment(status.started_at),
        "finished": moment(status.finished_at),
        "exit_code": is_over.then_some(status.exit_code),
        "reason": filled(&status.reason),
        "message": filled(&status.message),
    })
}

/// Formats runtime handlers and their features. The handler without a name is the default, which is also listed by
/// name.
pub(super) fn told_handlers(handlers: &[RuntimeHandler]) -> Value {
    let told = handlers.iter().take(MOST).map(|handler| {
        let features = handler.features.unwrap_or_default();
        let words = [
            (
                features.recursive_read_only_mounts,
                "recursive read-only mounts",
            ),
            (features.user_namespaces, "user namespaces"),
        ];
        let words = words.iter().filter(|(has, _)| *has);
        let words: Vec<&str> = words.map(|(_, word)| *word).collect();
        json!({ "name": cut(&handler.name), "features": words })
    });
    told.collect()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use orlop_cri_api::v1::{ContainerMetadata, PodSandboxMetadata};

    use super::*;
    use crate::asked;

    #[tokio::test]
    async fn a_thing_that_takes_too_long_is_told_of_by_the_list_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("silent.sock");
        let _silent = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let endpoint = format!("unix://{}", path.display());
        let mut pods = Pods::new(asked::connect(endpoint.parse().unwrap()).runtime());
        let container = |id: &str| Container {
            id: id.into(),
            ..Container::default()
        };
        let begin = Instant::now();
        let told = pods.container(&container("hangs")).await.unwrap();
        assert_eq!(told["id"], "hangs");
        let waited = begin.elapsed();
        let promised = Duration::from_secs(3);
        assert!(waited >= promised && waited < 2 * promised, "{waited:?}");
        // The same sample makes no further calls, and the next one skips this object.
        pods.container(&container("other")).await.unwrap();
        pods.late.begin(|_| true);
        pods.container(&container("hangs")).await.unwrap();
        assert!(begin.elapsed() < waited + Duration::from_secs(1));
        assert!(pods.late.may_ask("other"));
        let list = pods.client.list_containers(None);
        let error = soon(Duration::from_millis(100), list).await.unwrap_err();
        assert!(error.is_late() && !error.is_gone(), "{error}");
    }

    #[tokio::test]
    async fn a_pod_that_has_ended_is_asked_about_once() {
        let endpoint = "unix:///nowhere/at.sock".parse().unwrap();
        let mut pods = Pods::new(asked::connect(endpoint).runtime());
        let ended = PodSandbox {
            id: "1".into(),
            state: PodSandboxState::SandboxNotready.into(),
            ..PodSandbox::default()
        };
        let asked = pods.network(&ended).await.unwrap_err();
        assert!(asked.is_gone(), "{asked}");
        let noted = (ended.state, Network::default());
        pods.networks.insert("1".into(), noted);
        assert!(pods.network(&ended).await.unwrap().ips.is_empty());
        let ready = PodSandboxState::SandboxReady.into();
        pods.networks
            .insert("1".into(), (ready, Network::default()));
        let ready = PodSandbox {
            state: ready,
            ..ended
        };
        assert!(pods.network(&ready).await.is_err(), "it may get an address");
    }

    #[test]
    fn hostile_names_stay_strings_and_long_ones_are_cut() {
        let markup = "<img src=x onerror=alert(1)>\"}]\n\u{2028}";
        let pod = PodSandbox {
            id: "1".into(),
            metadata: Some(PodSandboxMetadata {
                name: markup.into(),
                namespace: "n".repeat(10_000),
                ..Default::default()
            }),
            labels: [(markup.to_owned(), markup.to_owned())].into(),
            ..Default::default()
        };
        let status = ContainerStatus {
            metadata: Some(ContainerMetadata {
                name: markup.into(),
                attempt: 3,
            }),
            message: markup.into(),
            state: ContainerState::ContainerExited.into(),
            exit_code: 137,
            ..Default::default()
        };
        let told = pod_json(&pod, &Network::default(), vec![container_json(&status)]);
        let text = told.to_string();
        assert!(!text.contains('\n'), "an event is one line");
        let told: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(told["name"], markup);
        assert_eq!(told["labels"][markup], markup);
        assert_eq!(told["namespace"].as_str().unwrap().len(), 4096);
        let container = &told["containers"][0];
        assert_eq!(container["message"], markup);
        assert_eq!(
            (&container["exit_code"], &container["attempt"]),
            (&json!(137), &json!(3))
        );
        assert_eq!(container["started"], Value::Null);
    }
}
