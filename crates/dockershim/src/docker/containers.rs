//! Container calls of the engine's API.

use std::time::Duration;

use http::Method;
use serde::Serialize;

use super::client::{Docker, escaped, filters};
use super::error::Result;
use super::hijack::Hijacked;
use super::reply::Reply;
use super::types::{Container, ContainerSummary, CreateBody, Created, Resources};

/// The filter of a container list.
#[derive(Debug, Default)]
pub(crate) struct Which {
    /// `key=value`, or a key alone.
    pub(crate) labels: Vec<String>,
    /// An id or a prefix of one.
    pub(crate) id: Option<String>,
    /// States by the engine's names; empty selects all.
    pub(crate) states: Vec<String>,
}

/// A key sequence that nobody types: a session ends only when the client closes it.
const DETACH_KEYS: &str = "ctrl-^,ctrl-_,ctrl-^,ctrl-_,ctrl-^,ctrl-_,ctrl-^";

impl Docker {
    pub(crate) async fn list_containers(&self, which: &Which) -> Result<Vec<ContainerSummary>> {
        let id: Vec<String> = which.id.iter().cloned().collect();
        let filters = filters(&[
            ("label", &which.labels),
            ("id", &id),
            ("status", &which.states),
        ]);
        self.get(&format!("/containers/json?all=1&filters={filters}"))
            .await
    }

    pub(crate) async fn create_container(&self, name: &str, body: &CreateBody) -> Result<Created> {
        self.post(&format!("/containers/create?name={}", escaped(name)), body)
            .await
    }

    pub(crate) async fn container(&self, id: &str) -> Result<Container> {
        self.get(&format!("/containers/{}/json", escaped(id))).await
    }

    /// Returns the size of a container's writable layer, which the engine has to compute.
    pub(crate) async fn container_size(&self, id: &str) -> Result<Option<u64>> {
        #[derive(serde::Deserialize)]
        struct Sized {
            #[serde(rename = "SizeRw")]
            size: Option<i64>,
        }
        let path = format!("/containers/{}/json?size=1", escaped(id));
        let sized: Sized = self.get(&path).await?;
        Ok(sized.size.and_then(|size| u64::try_from(size).ok()))
    }

    pub(crate) async fn start_container(&self, id: &str) -> Result<()> {
        let path = format!("/containers/{}/start", escaped(id));
        self.act(Method::POST, &path, None, self.limit()).await
    }

    /// Stops a container with its stop signal, and kills it after `grace`. It is not an error if the container
    /// is not running.
    pub(crate) async fn stop_container(&self, id: &str, grace: Duration) -> Result<()> {
        let path = format!("/containers/{}/stop?t={}", escaped(id), grace.as_secs());
        self.act(Method::POST, &path, None, self.limit() + grace)
            .await
    }

    /// Removes a container with its anonymous volumes.
    pub(crate) async fn remove_container(&self, id: &str, force: Force) -> Result<()> {
        let force = u8::from(force == Force::Yes);
        let path = format!("/containers/{}?v=1&force={force}", escaped(id));
        self.act(Method::DELETE, &path, None, self.limit()).await
    }

    pub(crate) async fn update_container(&self, id: &str, resources: &Resources) -> Result<()> {
        let path = format!("/containers/{}/update", escaped(id));
        self.act(Method::POST, &path, Some(resources), self.limit())
            .await
    }

    /// Reads the container's log from `since` on; with `follow`, until the container ends.
    pub(crate) async fn logs(&self, id: &str, since: &str, follow: Follow) -> Result<Reply> {
        let follow = u8::from(follow == Follow::Yes);
        let path = format!(
            "/containers/{}/logs?stdout=1&stderr=1&timestamps=1&follow={follow}&since={}",
            escaped(id),
            escaped(since),
        );
        self.stream(Method::GET, &path, None, &[]).await
    }

    /// Connects to the standard streams of a container's first process.
    pub(crate) async fn attach(&self, id: &str, streams: Streams) -> Result<Hijacked> {
        let flag = u8::from;
        let path = format!(
            "/containers/{}/attach?stream=1&stdin={}&stdout={}&stderr={}&detachKeys={}",
            escaped(id),
            flag(streams.stdin),
            flag(streams.stdout),
            flag(streams.stderr),
            escaped(DETACH_KEYS),
        );
        self.hijack(&path, None).await
    }

    pub(crate) async fn resize_container(&self, id: &str, columns: u16, rows: u16) -> Result<()> {
        let path = format!("/containers/{}/resize?h={rows}&w={columns}", escaped(id));
        self.act(Method::POST, &path, None, self.limit()).await
    }
}

/// Whether to remove a running container, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Force {
    No,
    Yes,
}

/// Whether to follow a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Follow {
    No,
    Yes,
}

/// The standard streams to attach.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Streams {
    pub(crate) stdin: bool,
    pub(crate) stdout: bool,
    pub(crate) stderr: bool,
}
