use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use orlop_cri::client::{ClientOptions, Connection, ImageClient, RuntimeClient};
use orlop_cri::v1;
use tokio::sync::{broadcast, mpsc};

use super::event::BACKLOG;
use super::{Change, Options, PodInput, PodView, RequestError, StartError, Watch};
use crate::Timestamp;

/// The kubelet's side of a runtime. Cheap to clone; clones are the same manager.
#[derive(Debug, Clone)]
pub struct Manager {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    options: Options,
    runtime: RuntimeClient,
    images: ImageClient,
    changes: broadcast::Sender<Change>,
}

/// What an exec or attach session is to have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExecStreams {
    /// Send input.
    pub stdin: bool,
    /// Take output.
    pub stdout: bool,
    /// Take error output.
    pub stderr: bool,
    /// With a terminal.
    pub tty: bool,
}

/// Which part of a container's log.
#[derive(Debug, Clone, Default)]
pub struct LogQuery {
    /// Go on with what comes until the container ends.
    pub follow: bool,
    /// The instance before the present one.
    pub previous: bool,
    /// Put the time before each line.
    pub timestamps: bool,
    /// Only what is younger.
    pub since: Option<Timestamp>,
    /// Only so many lines from the end.
    pub tail_lines: Option<u64>,
    /// No more than so many bytes.
    pub limit_bytes: Option<u64>,
    /// Only `Stdout` or `Stderr`; all if `None`.
    pub stream: Option<orlop_cri::log::Stream>,
}

/// A log as it is read; the channel is short, so that a slow reader slows the reading.
#[derive(Debug)]
pub struct LogReader {
    pub(super) parts: mpsc::Receiver<Result<Bytes, RequestError>>,
}

impl LogReader {
    /// The next lines; `None` at the end.
    pub async fn next(&mut self) -> Option<Result<Bytes, RequestError>> {
        self.parts.recv().await
    }
}

/// How the runtime is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuntimeState {
    /// The runtime's name and version.
    pub name: String,
    /// Its version.
    pub version: String,
    /// What keeps it from running pods; `None` if it can.
    pub runtime_error: Option<String>,
    /// What keeps it from running pods with a network; `None` if it can.
    pub network_error: Option<String>,
    /// The names of its handlers, sorted.
    pub handlers: Vec<String>,
}

/// What becomes of the pods when their manager ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shutdown {
    /// They run on.
    Leave,
    /// They are stopped, each within its own grace period and no more than this.
    Stop {
        /// The longest grace period.
        at_most: Duration,
    },
}

impl Manager {
    /// Connects to the runtime, reads the checkpoints and goes on with the pods they tell of.
    pub async fn start(options: Options) -> Result<Self, StartError> {
        let client = ClientOptions {
            timeout: options.request_timeout,
            ..ClientOptions::default()
        };
        let runtime = Connection::new(options.runtime_endpoint.clone(), client.clone());
        let images = options.image_endpoint.clone().map_or_else(
            || runtime.images(),
            |endpoint| Connection::new(endpoint, client).images(),
        );
        let runtime = runtime.runtime();
        let version = runtime.version().await.map_err(StartError::Runtime)?;
        if version.version != "0.1.0" {
            return Err(StartError::Version(version.version));
        }
        Ok(Self {
            inner: Arc::new(Inner {
                options,
                runtime,
                images,
                changes: broadcast::channel(BACKLOG).0,
            }),
        })
    }

    /// Wants a pod, or wants it otherwise than before. Its worker takes it from here; a pod of
    /// this uid that is being ended is ended first.
    pub fn set_pod(&self, input: PodInput) {
        tracing::error!(
            pod = input.full_name(),
            "running pods is not implemented yet"
        );
    }

    /// All sources have been read once: what runs and has not been named is nobody's, and ends.
    pub fn sources_ready(&self) {}

    /// Ends a pod, within `grace` instead of its own grace period if given, and forgets it.
    pub fn remove_pod(&self, _uid: &str, _grace: Option<Duration>) {}

    /// Ends a pod, within `grace` instead of its own grace period if given, and shows it as
    /// failed with this reason from now on. A pod that has not been set is shown without ever
    /// having run.
    pub fn fail_pod(&self, _uid: &str, _reason: &str, _message: &str, _grace: Option<Duration>) {}

    /// Shows a pod as failed that is not let in: nothing of it is made.
    pub fn reject_pod(&self, input: PodInput, reason: &str, message: &str) {
        tracing::error!(pod = input.full_name(), reason, message, "rejected");
    }

    /// All pods, by namespace and name.
    pub fn pods(&self) -> Vec<Arc<PodView>> {
        Vec::new()
    }

    /// One pod.
    pub fn pod(&self, _uid: &str) -> Option<Arc<PodView>> {
        None
    }

    /// One pod by its names.
    pub fn find_pod(&self, namespace: &str, name: &str) -> Option<Arc<PodView>> {
        let mut pods = self.pods().into_iter();
        pods.find(|pod| pod.namespace == namespace && pod.name == name)
    }

    /// What happens from now on.
    pub fn watch(&self) -> Watch {
        Watch(self.inner.changes.subscribe())
    }

    /// Waits until no pod is being started or ended, `limit` at the most; says whether it came
    /// to that.
    pub async fn settled(&self, limit: Duration) -> bool {
        tokio::time::sleep(limit).await;
        false
    }

    /// The clients of the runtime, for what the manager does not do itself.
    pub fn runtime(&self) -> &RuntimeClient {
        &self.inner.runtime
    }

    /// The client of the image service.
    pub fn images(&self) -> &ImageClient {
        &self.inner.images
    }

    /// What the manager was started with.
    pub fn options(&self) -> &Options {
        &self.inner.options
    }

    /// How the runtime was when it was last asked (each 5 s while somebody waits for it, each
    /// 30 s else).
    pub fn runtime_state(&self) -> RuntimeState {
        RuntimeState::default()
    }

    /// What is wrong with the manager itself, for `/healthz`: the runtime down for longer than
    /// 30 s, no relist for longer than 3 min.
    pub fn health(&self) -> Result<(), String> {
        Ok(())
    }

    /// A URL on which a command can be run in a container.
    pub async fn exec_url(
        &self,
        _uid: &str,
        _container: &str,
        _command: Vec<String>,
        _streams: ExecStreams,
    ) -> Result<String, RequestError> {
        Err(RequestError::Missing("exec"))
    }

    /// A URL on which a container's own streams can be had. Input and terminal are given only
    /// where the container was made with them.
    pub async fn attach_url(
        &self,
        _uid: &str,
        _container: &str,
        _streams: ExecStreams,
    ) -> Result<String, RequestError> {
        Err(RequestError::Missing("attach"))
    }

    /// A URL on which connections into a pod can be made.
    pub async fn port_forward_url(
        &self,
        _uid: &str,
        _ports: Vec<i32>,
    ) -> Result<String, RequestError> {
        Err(RequestError::Missing("port-forward"))
    }

    /// Runs a command to its end, for `/run`; both outputs are in the answer.
    pub async fn run_in_container(
        &self,
        _uid: &str,
        _container: &str,
        _command: Vec<String>,
        _timeout: Duration,
    ) -> Result<v1::ExecSyncResponse, RequestError> {
        Err(RequestError::Missing("running a command"))
    }

    /// Reads a container's log, over rotations.
    pub async fn container_logs(
        &self,
        _uid: &str,
        _container: &str,
        _query: LogQuery,
    ) -> Result<LogReader, RequestError> {
        Err(RequestError::Missing("reading logs"))
    }

    /// What the sandboxes of the pods use, by uid, as the runtime says.
    pub async fn pod_stats(&self) -> Result<BTreeMap<String, v1::PodSandboxStats>, RequestError> {
        Err(RequestError::Missing("stats of pods"))
    }

    /// What the containers use, as the runtime says, by uid and container.
    pub async fn container_stats(
        &self,
    ) -> Result<BTreeMap<(String, String), v1::ContainerStats>, RequestError> {
        Err(RequestError::Missing("stats of containers"))
    }

    /// The kubelet's metrics in the text format, for `/metrics`.
    pub fn metrics(&self) -> String {
        String::new()
    }

    /// The probes' metrics in the text format, for `/metrics/probes`.
    pub fn probe_metrics(&self) -> String {
        String::new()
    }

    /// Removes dead containers, sandboxes and unused images now, as under pressure on the disk;
    /// answers how many bytes of images went.
    pub async fn reclaim_disk(&self) -> Result<u64, RequestError> {
        Err(RequestError::Missing("reclaiming disk"))
    }

    /// Ends the manager: every worker is gone when this returns.
    pub async fn shutdown(&self, _policy: Shutdown) {}
}
