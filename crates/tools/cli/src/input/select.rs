//! Selection of pods and containers by ID, ID prefix, name or filter.

use std::collections::{HashMap, HashSet};

use anyhow::{Context, bail};
use orlop_cri_api::client::{ImageClient, RuntimeClient};
use orlop_cri_api::v1::{
    Container, ContainerFilter, ContainerState, ContainerStateValue, ImageSpec, PodSandbox,
    PodSandboxFilter, PodSandboxState, PodSandboxStateValue,
};
use regex_lite::Regex;

use crate::input::{Pair, map};
use crate::output::short_id;

const POD_NAME: &str = "io.kubernetes.pod.name";
const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";

/// Returns the IDs of containers given by ID, ID prefix, `NAME` or `POD/NAME`.
pub(crate) async fn containers(
    client: &RuntimeClient,
    words: &[String],
) -> anyhow::Result<Vec<String>> {
    if words.iter().all(|word| is_whole_id(word)) {
        return Ok(words.to_vec());
    }
    let all: Vec<Candidate> = client
        .list_containers(None)
        .await?
        .iter()
        .map(Candidate::container)
        .collect();
    words
        .iter()
        .map(|word| choose("container", word, &all))
        .collect()
}

/// Returns the ID of one container.
pub(crate) async fn container(client: &RuntimeClient, word: &str) -> anyhow::Result<String> {
    let mut ids = containers(client, &[word.to_owned()]).await?;
    ids.pop().context("no container given")
}

/// Returns the IDs of pods given by ID, ID prefix, `NAME` or `NAMESPACE/NAME`.
pub(crate) async fn pods(client: &RuntimeClient, words: &[String]) -> anyhow::Result<Vec<String>> {
    if words.iter().all(|word| is_whole_id(word)) {
        return Ok(words.to_vec());
    }
    let all: Vec<Candidate> = client
        .list_pod_sandbox(None)
        .await?
        .iter()
        .map(Candidate::pod)
        .collect();
    words.iter().map(|word| choose("pod", word, &all)).collect()
}

/// Returns the ID of one pod.
pub(crate) async fn pod(client: &RuntimeClient, word: &str) -> anyhow::Result<String> {
    let mut ids = pods(client, &[word.to_owned()]).await?;
    ids.pop().context("no pod given")
}

/// ID of a container or a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Thing {
    Container(String),
    Pod(String),
}

/// Returns the container or pod for a word; a container takes precedence.
pub(crate) async fn thing(client: &RuntimeClient, word: &str) -> anyhow::Result<Thing> {
    let (containers, pods) =
        tokio::try_join!(client.list_containers(None), client.list_pod_sandbox(None))?;
    let containers: Vec<_> = containers.iter().map(Candidate::container).collect();
    let id = choose("container", word, &containers)?;
    if containers.iter().any(|container| container.id == id) {
        return Ok(Thing::Container(id));
    }
    let pods: Vec<_> = pods.iter().map(Candidate::pod).collect();
    let id = choose("pod", word, &pods)?;
    if pods.iter().any(|pod| pod.id == id) {
        return Ok(Thing::Pod(id));
    }
    bail!("no container or pod matches `{word}`; run `orlop ps -a` and `orlop pods` to list them")
}

/// Returns the first process of a container, if the runtime reports it: orlop, containerd and CRI-O do so in the
/// verbose status.
pub(crate) async fn pid(client: &RuntimeClient, id: &str) -> anyhow::Result<Option<u32>> {
    let answer = match client.container_status(id, true).await {
        Err(error) if error.is_not_found() => return Ok(None),
        answer => answer?,
    };
    let info = answer.info.get("info").map_or("", String::as_str);
    let info: serde_json::Value = serde_json::from_slice(info.as_bytes()).unwrap_or_default();
    let pid = info["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
    Ok(pid.filter(|pid| *pid > 0))
}

struct Candidate {
    id: String,
    name: String,
    within: String,
    running: bool,
}

impl Candidate {
    fn container(container: &Container) -> Self {
        Self {
            id: container.id.clone(),
            name: container
                .metadata
                .as_ref()
                .map(|m| m.name.clone())
                .unwrap_or_default(),
            within: pod_name(&container.labels).to_owned(),
            running: container.state() == ContainerState::ContainerRunning,
        }
    }

    fn pod(pod: &PodSandbox) -> Self {
        let metadata = pod.metadata.clone().unwrap_or_default();
        Self {
            id: pod.id.clone(),
            name: metadata.name,
            within: metadata.namespace,
            running: pod.state() == PodSandboxState::SandboxReady,
        }
    }

    fn is_named(&self, word: &str) -> bool {
        self.name == word
            || word
                .split_once('/')
                .is_some_and(|(within, name)| self.within == within && self.name == name)
    }
}

/// Chooses a match: an ID before an ID prefix before a name, and of several with one name the running one. An unknown
/// word is returned unchanged, so that the runtime reports the error.
fn choose(kind: &str, word: &str, all: &[Candidate]) -> anyhow::Result<String> {
    if word.is_empty() {
        bail!("the ID of a {kind} is empty");
    }
    if all.iter().any(|candidate| candidate.id == word) {
        return Ok(word.to_owned());
    }
    let mut matches: Vec<_> = all
        .iter()
        .filter(|candidate| candidate.id.starts_with(word))
        .collect();
    if matches.is_empty() {
        matches = all
            .iter()
            .filter(|candidate| candidate.is_named(word))
            .collect();
        if matches.len() > 1 && matches.iter().filter(|candidate| candidate.running).count() == 1 {
            matches.retain(|candidate| candidate.running);
        }
    }
    match matches.as_slice() {
        [] => Ok(word.to_owned()),
        [one] => Ok(one.id.clone()),
        several => {
            let found: Vec<String> = several
                .iter()
                .map(|one| format!("{} ({}/{})", short_id(&one.id), one.within, one.name))
                .collect();
            bail!(
                "`{word}` is ambiguous and matches several {kind}s: {}",
                found.join(", ")
            )
        }
    }
}

fn is_whole_id(word: &str) -> bool {
    word.len() == 64 && word.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns the name of a container's pod.
pub(crate) fn pod_name(labels: &HashMap<String, String>) -> &str {
    labels.get(POD_NAME).map_or("unknown", String::as_str)
}

/// Returns the namespace of a container's pod.
pub(crate) fn pod_namespace(labels: &HashMap<String, String>) -> &str {
    labels.get(POD_NAMESPACE).map_or("unknown", String::as_str)
}

/// Filter flags for a list of containers.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct ContainerFlags {
    /// Filter by name, as a regular expression
    #[arg(long, value_name = "REGEX")]
    pub(crate) name: Option<String>,
    /// Filter by pod namespace, as a regular expression
    #[arg(long, value_name = "REGEX")]
    pub(crate) namespace: Option<String>,
    /// Filter by pod
    #[arg(short, long)]
    pub(crate) pod: Option<String>,
    /// Filter by image
    #[arg(long)]
    pub(crate) image: Option<String>,
    /// Filter by label
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',')]
    pub(crate) label: Vec<Pair>,
    /// Only the most recently created container, in any state
    #[arg(short, long)]
    pub(crate) latest: bool,
    /// Only the N most recently created containers, in any state
    #[arg(short = 'n', long, value_name = "N", default_value_t = 0)]
    pub(crate) last: usize,
}

impl ContainerFlags {
    /// Returns whether any of them was given.
    pub(crate) fn any(&self) -> bool {
        self.name.is_some()
            || self.namespace.is_some()
            || self.pod.is_some()
            || self.image.is_some()
            || !self.label.is_empty()
            || self.latest
            || self.last > 0
    }

    /// Returns the matching containers, newest first. Without a state these are the running ones, unless `all` is set.
    pub(crate) async fn list(
        &self,
        client: &RuntimeClient,
        images: &ImageClient,
        id: Option<String>,
        state: Option<&str>,
        all: bool,
    ) -> anyhow::Result<Vec<Container>> {
        let state = match state.map(str::to_lowercase).as_deref() {
            None if all => None,
            None | Some("running") => Some(ContainerState::ContainerRunning),
            Some("created") => Some(ContainerState::ContainerCreated),
            Some("exited") => Some(ContainerState::ContainerExited),
            Some("unknown") => Some(ContainerState::ContainerUnknown),
            Some(_) => bail!("--state must be created, running, exited or unknown"),
        };
        let any_state = self.latest || self.last > 0;
        let pod_sandbox_id = match &self.pod {
            Some(word) => pod(client, word).await?,
            None => String::new(),
        };
        let filter = ContainerFilter {
            id: id.unwrap_or_default(),
            state: state
                .filter(|_| !any_state)
                .map(|state| ContainerStateValue {
                    state: state.into(),
                }),
            pod_sandbox_id,
            label_selector: map(&self.label),
        };
        let name = regex(self.name.as_deref())?;
        let namespace = regex(self.namespace.as_deref())?;
        let mut found = client.list_containers(Some(filter)).await?;
        found.retain(|container| {
            let named = container
                .metadata
                .as_ref()
                .map_or("", |metadata| &metadata.name);
            fits(name.as_ref(), named) && fits(namespace.as_ref(), pod_namespace(&container.labels))
        });
        if let Some(image) = &self.image {
            found = of_image(found, images, image).await?;
        }
        found.sort_by_key(|container| std::cmp::Reverse(container.created_at));
        found.truncate(limit(self.latest, self.last));
        Ok(found)
    }
}

/// Filter flags for a list of pods.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct PodFlags {
    /// Filter by name, as a regular expression
    #[arg(long, value_name = "REGEX")]
    name: Option<String>,
    /// Filter by namespace, as a regular expression
    #[arg(long, value_name = "REGEX")]
    namespace: Option<String>,
    /// Filter by state: ready or notready
    #[arg(short, long)]
    state: Option<String>,
    /// Filter by label
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',')]
    label: Vec<Pair>,
    /// Only the most recently created pod
    #[arg(short, long)]
    latest: bool,
    /// Only the N most recently created pods
    #[arg(short = 'n', long, value_name = "N", default_value_t = 0)]
    last: usize,
}

impl PodFlags {
    /// Returns the matching pods, newest first.
    pub(crate) async fn list(
        &self,
        client: &RuntimeClient,
        id: Option<String>,
    ) -> anyhow::Result<Vec<PodSandbox>> {
        let state = match self.state.as_deref().map(str::to_lowercase).as_deref() {
            None => None,
            Some("ready") => Some(PodSandboxState::SandboxReady),
            Some("notready") => Some(PodSandboxState::SandboxNotready),
            Some(_) => bail!("--state must be ready or notready"),
        };
        let filter = PodSandboxFilter {
            id: id.unwrap_or_default(),
            state: state.map(|state| PodSandboxStateValue {
                state: state.into(),
            }),
            label_selector: map(&self.label),
        };
        let name = regex(self.name.as_deref())?;
        let namespace = regex(self.namespace.as_deref())?;
        let mut found = client.list_pod_sandbox(Some(filter)).await?;
        found.retain(|pod| {
            pod.metadata.as_ref().is_some_and(|metadata| {
                fits(name.as_ref(), &metadata.name) && fits(namespace.as_ref(), &metadata.namespace)
            })
        });
        found.sort_by_key(|pod| std::cmp::Reverse(pod.created_at));
        found.truncate(limit(self.latest, self.last));
        Ok(found)
    }
}

/// Keeps the containers whose image is the one that `image` names.
async fn of_image(
    containers: Vec<Container>,
    client: &ImageClient,
    image: &str,
) -> anyhow::Result<Vec<Container>> {
    let id = async |name: &str| -> anyhow::Result<Option<String>> {
        let spec = ImageSpec {
            image: name.to_owned(),
            ..Default::default()
        };
        Ok(client
            .image_status(spec, false)
            .await?
            .image
            .map(|image| image.id))
    };
    let Some(wanted) = id(image).await? else {
        return Ok(Vec::new());
    };
    let mut known: HashSet<String> = HashSet::from([wanted.clone()]);
    let mut others: HashSet<String> = HashSet::new();
    let mut found = Vec::new();
    for container in containers {
        let name = container
            .image
            .as_ref()
            .map_or("", |image| &image.image)
            .to_owned();
        if container.image_id != wanted && !known.contains(&name) && !others.contains(&name) {
            if id(&name).await?.as_ref() == Some(&wanted) {
                known.insert(name.clone());
            } else {
                others.insert(name.clone());
            }
        }
        if container.image_id == wanted || known.contains(&name) {
            found.push(container);
        }
    }
    Ok(found)
}

/// Compiles a filter; without a pattern everything matches.
pub(crate) fn regex(pattern: Option<&str>) -> anyhow::Result<Option<Regex>> {
    pattern
        .filter(|pattern| !pattern.is_empty())
        .map(|pattern| {
            Regex::new(pattern)
                .with_context(|| format!("`{pattern}` is not a valid regular expression"))
        })
        .transpose()
}

fn fits(pattern: Option<&Regex>, text: &str) -> bool {
    pattern.is_none_or(|pattern| pattern.is_match(text))
}

fn limit(latest: bool, last: usize) -> usize {
    match (latest, last) {
        (_, last) if last > 0 => last,
        (true, _) => 1,
        _ => usize::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(id: &str, within: &str, name: &str, running: bool) -> Candidate {
        Candidate {
            id: id.into(),
            name: name.into(),
            within: within.into(),
            running,
        }
    }

    #[test]
    fn ids_beat_beginnings_and_beginnings_beat_names() {
        let all = [
            candidate("ab12", "pod1", "web", true),
            candidate("ab", "pod1", "db", true),
            candidate("cd34", "pod2", "ab1", true),
            candidate("ef56", "pod2", "web", false),
        ];
        let chosen = |word: &str| choose("container", word, &all);
        assert_eq!(chosen("ab").unwrap(), "ab", "an id");
        assert_eq!(chosen("ab1").unwrap(), "ab12", "a beginning");
        assert_eq!(chosen("db").unwrap(), "ab", "a name");
        assert_eq!(chosen("web").unwrap(), "ab12", "the one that runs");
        assert_eq!(chosen("pod2/web").unwrap(), "ef56", "the one in that pod");
        assert_eq!(chosen("nobody").unwrap(), "nobody", "left to the runtime");
        let error = chosen("a").unwrap_err().to_string();
        assert!(
            error.contains("ab12") && error.contains("pod1/db"),
            "{error}"
        );
        assert!(chosen("").is_err());
    }
}
