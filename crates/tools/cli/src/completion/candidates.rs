//! Candidates for a name or ID.

use std::collections::HashMap;
use std::path::PathBuf;

use orlop_cri_api::client::{ImageClient, RuntimeClient};
use orlop_cri_api::v1::{ContainerState, PodSandboxState};

use crate::connect::{ClientFlags, Session};
use crate::input::select::pod_name;
use crate::output::{ago, short_bytes};

/// The requested candidates.
#[derive(Debug, Clone, Default)]
pub(crate) struct Candidates {
    pub(crate) containers: bool,
    pub(crate) pods: bool,
    pub(crate) images: bool,
    pub(crate) handlers: bool,
    /// The command they are for; some apply to running containers only.
    pub(crate) command: String,
    /// The typed part of the word.
    pub(crate) begun: String,
}

impl Candidates {
    /// Returns whether any candidates are requested.
    pub(crate) fn any(&self) -> bool {
        self.containers || self.pods || self.images || self.handlers
    }
}

/// Returns names and IDs of existing objects, each with a description.
pub(crate) async fn offered(
    endpoint: Option<String>,
    config: Option<String>,
    candidates: &Candidates,
) -> anyhow::Result<Vec<(String, String)>> {
    let flags = ClientFlags {
        runtime_endpoint: endpoint.or_else(|| std::env::var("CONTAINER_RUNTIME_ENDPOINT").ok()),
        image_endpoint: std::env::var("IMAGE_SERVICE_ENDPOINT").ok(),
        config: config
            .or_else(|| std::env::var("CRI_CONFIG_FILE").ok())
            .map(PathBuf::from),
        ..ClientFlags::default()
    };
    let session = Session::open_quietly(flags)?;
    let mut found = Vec::new();
    if candidates.containers {
        found.extend(containers(&session.runtime().await?, candidates).await?);
    }
    if candidates.pods {
        found.extend(pods(&session.runtime().await?, candidates).await?);
    }
    if candidates.images {
        found.extend(images(&session.images().await?).await?);
    }
    if candidates.handlers {
        let status = session.runtime().await?.status(false).await?;
        let handlers = status.runtime_handlers.into_iter();
        found.extend(handlers.map(|handler| (handler.name, String::new())));
        found.retain(|(name, _)| !name.is_empty());
    }
    Ok(found)
}

async fn containers(
    client: &RuntimeClient,
    candidates: &Candidates,
) -> anyhow::Result<Vec<(String, String)>> {
    let mut found = client.list_containers(None).await?;
    let wanted = match candidates.command.as_str() {
        "exec" | "attach" | "cp" | "checkpoint" | "stop" => Some(ContainerState::ContainerRunning),
        "start" => Some(ContainerState::ContainerCreated),
        _ => None,
    };
    found.retain(|container| wanted.is_none_or(|state| container.state() == state));
    let mut names: HashMap<String, usize> = HashMap::new();
    for container in &found {
        let name = container.metadata.clone().unwrap_or_default().name;
        *names.entry(name).or_default() += 1;
    }
    let mut offers = Vec::new();
    for container in found {
        let name = container.metadata.clone().unwrap_or_default().name;
        let pod = pod_name(&container.labels);
        let what = format!(
            "{} in {pod}, {}",
            state(container.state()),
            ago(container.created_at)
        );
        if is_id(&candidates.begun) && container.id.starts_with(&candidates.begun) {
            offers.push((container.id, format!("{name}: {what}")));
        } else if names.get(&name) == Some(&1) {
            offers.push((name, what));
        } else {
            offers.push((format!("{pod}/{name}"), what));
        }
    }
    Ok(offers)
}

async fn pods(
    client: &RuntimeClient,
    candidates: &Candidates,
) -> anyhow::Result<Vec<(String, String)>> {
    let found = client.list_pod_sandbox(None).await?;
    let mut names: HashMap<String, usize> = HashMap::new();
    for pod in &found {
        let name = pod.metadata.clone().unwrap_or_default().name;
        *names.entry(name).or_default() += 1;
    }
    let mut offers = Vec::new();
    for pod in found {
        let metadata = pod.metadata.clone().unwrap_or_default();
        let state = match pod.state() {
            PodSandboxState::SandboxReady => "ready",
            PodSandboxState::SandboxNotready => "not ready",
        };
        let what = format!("pod in {}, {state}", metadata.namespace);
        if is_id(&candidates.begun) && pod.id.starts_with(&candidates.begun) {
            offers.push((pod.id, format!("{}: {what}", metadata.name)));
        } else if names.get(&metadata.name) == Some(&1) {
            offers.push((metadata.name, what));
        } else {
            offers.push((format!("{}/{}", metadata.namespace, metadata.name), what));
        }
    }
    Ok(offers)
}

async fn images(client: &ImageClient) -> anyhow::Result<Vec<(String, String)>> {
    let found = client.list_images(None).await?;
    Ok(found
        .into_iter()
        .flat_map(|image| {
            let size = short_bytes(image.size);
            let names = if image.repo_tags.is_empty() {
                vec![image.id]
            } else {
                image.repo_tags
            };
            names.into_iter().map(move |name| (name, size.clone()))
        })
        .collect())
}

/// Returns whether the typed text looks like the start of an ID.
fn is_id(begun: &str) -> bool {
    !begun.is_empty() && begun.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn state(state: ContainerState) -> &'static str {
    match state {
        ContainerState::ContainerCreated => "created",
        ContainerState::ContainerRunning => "running",
        ContainerState::ContainerExited => "exited",
        ContainerState::ContainerUnknown => "unknown",
    }
}
