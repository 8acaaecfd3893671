use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use orlop_cri::client::{ClientOptions, Connection, ImageClient, RuntimeClient};
use orlop_cri::v1;
use tokio::sync::mpsc;

use super::context::{Context, Parts};
use super::node_facts::Machine;
use super::{Options, PodInput, PodView, RequestError, Stage, StartError, Watch};
use crate::Timestamp;
use crate::cgroups::Cgroups;
use crate::images::{Images, Providers};
use crate::labels;
use crate::logs::{LogLinks, Source, read};
use crate::metrics::Metrics;
use crate::status::ContainerState;
use crate::worker::{Cause, Ending, Mailbox, load_all, run};
use crate::{housekeeping, pleg};

/// The kubelet's side of a runtime. Cheap to clone; clones are the same manager.
#[derive(Debug, Clone)]
pub struct Manager {
    ctx: Arc<Context>,
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
        let metrics = Metrics::new();
        let client = ClientOptions {
            timeout: options.request_timeout,
            observer: Some(metrics.observer()),
            ..ClientOptions::default()
        };
        let connection = Connection::new(options.runtime_endpoint.clone(), client.clone());
        let image_client = options.image_endpoint.clone().map_or_else(
            || connection.images(),
            |endpoint| Connection::new(endpoint, client).images(),
        );
        let runtime = connection.runtime();
        let version = runtime.version().await.map_err(StartError::Runtime)?;
        if version.version != "0.1.0" {
            return Err(StartError::Version(version.version));
        }
        image_client
            .image_fs_info()
            .await
            .map_err(StartError::Images)?;
        let local = {
            let options = options.clone();
            tokio::task::spawn_blocking(move || Local::prepare(&options))
        };
        let local = local
            .await
            .map_err(|e| StartError::Setting(e.to_string()))??;
        let ctx = Arc::new(Context::new(Parts {
            images: Images::new(
                image_client.clone(),
                options.images.clone(),
                options.root_dir.clone(),
                local.providers,
            ),
            facts: local.machine.facts(&options.node),
            memory: local.machine.memory,
            hugepage_sizes: local.machine.hugepage_sizes,
            state: RuntimeState {
                name: version.runtime_name,
                version: version.runtime_version,
                ..RuntimeState::default()
            },
            cgroups: local.cgroups,
            log_links: local.log_links,
            options,
            runtime,
            image_client,
            metrics,
        }));
        let prepared = ctx.cgroups.prepare(local.machine.cpu_milli).await;
        prepared.map_err(|e| StartError::Setting(e.to_string()))?;
        housekeeping::ask_runtime(&ctx).await;
        let manager = Self { ctx };
        for input in local.known {
            manager.take(input, false);
        }
        manager.spawn(pleg::run(manager.ctx.clone()));
        manager.spawn(housekeeping::watch_runtime(manager.ctx.clone()));
        manager.spawn(housekeeping::collect(manager.ctx.clone()));
        manager.spawn(housekeeping::collect_images(manager.ctx.clone()));
        manager.spawn(housekeeping::rotate_logs(manager.ctx.clone()));
        Ok(manager)
    }

    /// Wants a pod, or wants it otherwise than before. Its worker takes it from here; a pod of
    /// this uid that is being ended is ended first, and so is another pod of its name.
    pub fn set_pod(&self, input: PodInput) {
        self.take(input, true);
    }

    /// All sources have been read once: what runs and has not been named is nobody's, and ends.
    pub fn sources_ready(&self) {
        let unnamed = self.ctx.with_workers(|workers| {
            let unnamed = workers.values().filter(|worker| !worker.is_confirmed());
            unnamed.cloned().collect::<Vec<_>>()
        });
        for mailbox in unnamed {
            mailbox.end(Ending {
                cause: Cause::Removed,
                grace: None,
            });
        }
        self.ctx.set_sources_ready();
    }

    /// Ends a pod, within `grace` instead of its own grace period if given, and forgets it. Said
    /// again with less, the pod has less.
    pub fn remove_pod(&self, uid: &str, grace: Option<Duration>) {
        self.end(uid, Cause::Removed, grace);
    }

    /// Ends a pod, within `grace` instead of its own grace period if given, and shows it as
    /// failed with this reason from now on.
    pub fn fail_pod(&self, uid: &str, reason: &str, message: &str, grace: Option<Duration>) {
        let cause = Cause::Failed {
            reason: reason.to_owned(),
            message: message.to_owned(),
        };
        self.end(uid, cause, grace);
    }

    /// Shows a pod as failed that is not let in: nothing of it is made.
    pub fn reject_pod(&self, input: PodInput, reason: &str, message: &str) {
        let ending = Ending {
            cause: Cause::Failed {
                reason: reason.to_owned(),
                message: message.to_owned(),
            },
            grace: None,
        };
        let fresh = self.ctx.with_workers(|workers| {
            if let Some(mailbox) = workers.get(input.uid()) {
                mailbox.end(ending.clone());
                return None;
            }
            let mailbox = Arc::new(Mailbox::new(input, true));
            mailbox.end(ending.clone());
            workers.insert(mailbox.uid.clone(), mailbox.clone());
            Some(mailbox)
        });
        if let Some(mailbox) = fresh {
            self.ctx.tasks.spawn(run(self.ctx.clone(), mailbox));
        }
    }

    /// All pods, by namespace and name.
    pub fn pods(&self) -> Vec<Arc<PodView>> {
        let mut views: Vec<_> = self.ctx.with_workers(|workers| {
            let views = workers.values().filter_map(|worker| worker.view());
            views.collect()
        });
        views.sort_by(|a, b| (&a.namespace, &a.name, &a.uid).cmp(&(&b.namespace, &b.name, &b.uid)));
        views
    }

    /// One pod.
    pub fn pod(&self, uid: &str) -> Option<Arc<PodView>> {
        self.ctx.mailbox(uid)?.view()
    }

    /// One pod by its names; of two, the one that is not on its way out.
    pub fn find_pod(&self, namespace: &str, name: &str) -> Option<Arc<PodView>> {
        let pods = self.pods().into_iter();
        pods.filter(|pod| pod.namespace == namespace && pod.name == name)
            .min_by_key(|pod| pod.stage != Stage::Syncing)
    }

    /// What happens from now on.
    pub fn watch(&self) -> Watch {
        Watch(self.ctx.changes.subscribe())
    }

    /// Waits until each pod is ready or at its end and none is being ended, `limit` at the most;
    /// says whether it came to that.
    pub async fn settled(&self, limit: Duration) -> bool {
        let mut watch = self.ctx.changes.subscribe();
        let wait = async {
            loop {
                let all = self.ctx.with_workers(|workers| {
                    workers.values().all(|worker| {
                        let leaving = matches!(
                            &*worker.ending().borrow(),
                            Some(Ending {
                                cause: Cause::Removed,
                                ..
                            })
                        );
                        let done =
                            |view: Arc<PodView>| view.ready || view.stage == Stage::Terminated;
                        !leaving && worker.view().is_some_and(done)
                    })
                });
                if all
                    || watch.recv().await == Err(tokio::sync::broadcast::error::RecvError::Closed)
                {
                    return;
                }
            }
        };
        tokio::time::timeout(limit, wait).await.is_ok()
    }

    /// The client of the runtime, for what the manager does not do itself.
    pub fn runtime(&self) -> &RuntimeClient {
        &self.ctx.runtime
    }

    /// The client of the image service.
    pub fn images(&self) -> &ImageClient {
        &self.ctx.image_client
    }

    /// What the manager was started with.
    pub fn options(&self) -> &Options {
        &self.ctx.options
    }

    /// How the runtime was when it was last asked: each 30 s while it is well, and each 5 s or
    /// when it fails to answer while it is not.
    pub fn runtime_state(&self) -> RuntimeState {
        self.ctx.runtime_state()
    }

    /// What is wrong with the manager itself, for `/healthz`: the runtime not ready or silent for
    /// longer than 30 s, no list of all pods for longer than 10 min.
    pub fn health(&self) -> Result<(), String> {
        self.ctx.health()
    }

    /// A URL on which a command can be run in a container.
    pub async fn exec_url(
        &self,
        uid: &str,
        container: &str,
        command: Vec<String>,
        streams: ExecStreams,
    ) -> Result<String, RequestError> {
        let request = v1::ExecRequest {
            container_id: self.running(uid, container)?,
            cmd: command,
            tty: streams.tty,
            stdin: streams.stdin,
            stdout: streams.stdout,
            stderr: streams.stderr && !streams.tty,
        };
        Ok(self.ctx.runtime.exec(request).await?)
    }

    /// A URL on which a container's own streams can be had. Input and terminal are given only
    /// where the container was made with them.
    pub async fn attach_url(
        &self,
        uid: &str,
        container: &str,
        streams: ExecStreams,
    ) -> Result<String, RequestError> {
        let id = self.running(uid, container)?;
        let (input, _) = self.worker(uid)?.snapshot();
        let ephemeral = input
            .pod
            .spec
            .ephemeral_containers
            .iter()
            .map(|c| &c.container);
        let spec = input
            .pod
            .spec
            .init_and_regular()
            .chain(ephemeral)
            .find(|c| c.name == container);
        let tty = spec.is_some_and(|c| c.tty);
        let request = v1::AttachRequest {
            container_id: id,
            tty,
            stdin: streams.stdin && spec.is_some_and(|c| c.stdin),
            stdout: streams.stdout,
            stderr: streams.stderr && !tty,
        };
        Ok(self.ctx.runtime.attach(request).await?)
    }

    /// A URL on which connections into a pod can be made.
    pub async fn port_forward_url(
        &self,
        uid: &str,
        ports: Vec<i32>,
    ) -> Result<String, RequestError> {
        let (_, seen) = self.worker(uid)?.snapshot();
        let sandbox = seen.status.sandboxes().iter().find(|s| s.ready);
        let sandbox = sandbox.ok_or_else(|| RequestError::NotRunning {
            pod: uid.to_owned(),
            container: "(its sandbox)".to_owned(),
        })?;
        Ok(self.ctx.runtime.port_forward(&sandbox.id, ports).await?)
    }

    /// Runs a command to its end, for `/run`; both outputs are in the answer.
    pub async fn run_in_container(
        &self,
        uid: &str,
        container: &str,
        command: Vec<String>,
        timeout: Duration,
    ) -> Result<v1::ExecSyncResponse, RequestError> {
        let id = self.running(uid, container)?;
        Ok(self.ctx.runtime.exec_sync(&id, command, timeout).await?)
    }

    /// Reads a container's log, over rotations.
    #[allow(
        clippy::unused_async,
        reason = "as all that asks for something of a container"
    )]
    pub async fn container_logs(
        &self,
        uid: &str,
        container: &str,
        query: LogQuery,
    ) -> Result<LogReader, RequestError> {
        let worker = self.worker(uid)?;
        let (_, seen) = worker.snapshot();
        let instances = seen.status.containers().iter();
        let mut instances = instances.filter(|c| c.name == container);
        let mut found = instances.next();
        if query.previous {
            // The newest that has ended is meant, were it the present one's forerunner or not.
            found = match found {
                Some(c) if c.state == ContainerState::Exited => Some(c),
                _ => instances.next(),
            };
        }
        let found = found.filter(|c| c.state != ContainerState::Created);
        let found = found.ok_or_else(|| RequestError::NoContainer {
            pod: uid.to_owned(),
            container: container.to_owned(),
        })?;
        let id = found.id.clone();
        let source = Source {
            path: found.log_path.clone().into(),
            is_running: Box::new(move || {
                let seen = worker.observation();
                let state = seen
                    .status
                    .containers()
                    .iter()
                    .find(|c| c.id == id)
                    .map(|c| c.state);
                matches!(
                    state,
                    Some(ContainerState::Running | ContainerState::Unknown)
                )
            }),
        };
        let (out, parts) = mpsc::channel(16);
        tokio::task::spawn_blocking(move || read(&source, &query, &out));
        Ok(LogReader { parts })
    }

    /// What the sandboxes of the pods use, by uid, as the runtime says.
    pub async fn pod_stats(&self) -> Result<BTreeMap<String, v1::PodSandboxStats>, RequestError> {
        let all = self.ctx.runtime.list_pod_sandbox_stats(None).await?;
        let mut by_uid = BTreeMap::new();
        for stats in all {
            let uid = stats
                .attributes
                .as_ref()
                .and_then(|a| a.metadata.as_ref())
                .map(|m| m.uid.clone());
            if let Some(uid) = uid.filter(|uid| self.ctx.mailbox(uid).is_some()) {
                by_uid.insert(uid, stats);
            }
        }
        Ok(by_uid)
    }

    /// What the containers use, as the runtime says, by uid and container.
    pub async fn container_stats(
        &self,
    ) -> Result<BTreeMap<(String, String), v1::ContainerStats>, RequestError> {
        let all = self.ctx.runtime.list_container_stats(None).await?;
        let mut by_name = BTreeMap::new();
        for stats in all {
            let Some(attributes) = &stats.attributes else {
                continue;
            };
            let of = |label: &str| attributes.labels.get(label).cloned();
            if let (Some(uid), Some(name)) = (of(labels::POD_UID), of(labels::CONTAINER_NAME)) {
                by_name.insert((uid, name), stats);
            }
        }
        Ok(by_name)
    }

    /// The kubelet's metrics in the text format, for `/metrics`.
    pub fn metrics(&self) -> String {
        self.ctx.metrics.text()
    }

    /// The probes' metrics in the text format, for `/metrics/probes`.
    pub fn probe_metrics(&self) -> String {
        self.ctx.metrics.probe_text()
    }

    /// Removes dead containers, sandboxes and all unused images now, as under pressure on the
    /// disk; answers how many bytes of images went.
    pub async fn reclaim_disk(&self) -> Result<u64, RequestError> {
        housekeeping::collect_once(&self.ctx).await?;
        let mut collector = self.ctx.image_collector.lock().await;
        let all = Some(u64::MAX);
        Ok(housekeeping::collect_images_once(&self.ctx, &mut collector, all).await?)
    }

    /// Ends the manager: every worker is gone when this returns.
    pub async fn shutdown(&self, policy: Shutdown) {
        if let Shutdown::Stop { at_most } = policy {
            let workers: Vec<_> = self
                .ctx
                .with_workers(|workers| workers.values().cloned().collect());
            for mailbox in &workers {
                let own = mailbox
                    .snapshot()
                    .0
                    .pod
                    .spec
                    .termination_grace_period_seconds;
                let own = own
                    .and_then(|s| u64::try_from(s).ok())
                    .map(Duration::from_secs);
                mailbox.end(Ending {
                    cause: Cause::Shutdown,
                    grace: Some(own.map_or(at_most, |own| own.min(at_most))),
                });
            }
            // Some more than the grace: the runtime has its own work to do.
            let limit = at_most + Duration::from_secs(15);
            let wait = async {
                for mailbox in workers {
                    let ended =
                        |m: &Mailbox| m.view().is_none_or(|view| view.stage == Stage::Terminated);
                    while !ended(&mailbox) && !self.ctx.tasks.is_empty() {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                }
            };
            if tokio::time::timeout(limit, wait).await.is_err() {
                tracing::warn!("some pods did not stop in time and are left as they are");
            }
        }
        self.ctx.stop.cancel();
        self.ctx.tasks.close();
        let limit = Duration::from_secs(10);
        if tokio::time::timeout(limit, self.ctx.tasks.wait())
            .await
            .is_err()
        {
            tracing::warn!("some tasks of the manager did not end");
        }
    }

    fn take(&self, input: PodInput, confirmed: bool) {
        let fresh = self.ctx.with_workers(|workers| {
            if let Some(mailbox) = workers.get(input.uid()) {
                mailbox.set(input);
                return None;
            }
            let mailbox = Arc::new(Mailbox::new(input, confirmed));
            workers.insert(mailbox.uid.clone(), mailbox.clone());
            Some(mailbox)
        });
        if let Some(mailbox) = fresh {
            self.ctx.tasks.spawn(run(self.ctx.clone(), mailbox));
        }
    }

    fn end(&self, uid: &str, cause: Cause, grace: Option<Duration>) {
        if let Some(mailbox) = self.ctx.mailbox(uid) {
            mailbox.end(Ending { cause, grace });
        }
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.ctx.stop.clone();
        self.ctx.tasks.spawn(async move {
            tokio::select! {
                () = task => {}
                () = stop.cancelled() => {}
            }
        });
    }

    fn worker(&self, uid: &str) -> Result<Arc<Mailbox>, RequestError> {
        self.ctx
            .mailbox(uid)
            .ok_or_else(|| RequestError::NoPod(uid.to_owned()))
    }

    /// The id of a container that runs.
    fn running(&self, uid: &str, container: &str) -> Result<String, RequestError> {
        let (_, seen) = self.worker(uid)?.snapshot();
        let (pod, container) = (uid.to_owned(), container.to_owned());
        match seen.status.newest(&container) {
            None => Err(RequestError::NoContainer { pod, container }),
            Some(c) if c.state != ContainerState::Running => {
                Err(RequestError::NotRunning { pod, container })
            }
            Some(c) => Ok(c.id.clone()),
        }
    }
}

/// What is read and made on the node before anything else.
struct Local {
    machine: Machine,
    cgroups: Cgroups,
    providers: Providers,
    log_links: LogLinks,
    known: Vec<PodInput>,
}

impl Local {
    fn prepare(options: &Options) -> Result<Self, StartError> {
        for dir in [
            options.root_dir.join("pods"),
            options.root_dir.join("checkpoints"),
            options.pod_logs_dir.clone(),
        ] {
            make(&dir)?;
        }
        let setting = |why: String| StartError::Setting(why);
        let images = &options.images;
        Ok(Self {
            machine: Machine::look(&options.node),
            cgroups: Cgroups::new(options.cgroups.clone()).map_err(|e| setting(e.to_string()))?,
            providers: Providers::read(
                images.credential_provider_config.as_deref(),
                images.credential_provider_bin_dir.as_deref(),
            )
            .map_err(setting)?,
            log_links: LogLinks::new(options.container_logs_dir.as_deref()),
            known: load_all(&options.root_dir),
        })
    }
}

fn make(dir: &Path) -> Result<(), StartError> {
    std::fs::create_dir_all(dir).map_err(|source| StartError::Directory {
        path: dir.to_owned(),
        source,
    })
}
