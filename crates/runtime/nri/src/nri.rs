//! The runtime's side of NRI: calls the plugins in their order.
//!
//! Plugins are called one after the other, by their index, and for one event at a time. If a plugin returns an error,
//! the operation fails. A plugin that does not answer, or sends an invalid response, is disconnected, and the operation
//! continues without it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::join_all;
use orlop_listen::SocketFile;
use parking_lot::{Mutex, MutexGuard, RwLock};
use prost::Message;
use tokio::sync::OwnedRwLockReadGuard;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::Config;
use crate::connection::CallError;
use crate::error::{Error, Result};
use crate::event::{Events, call_of};
use crate::gate::{Gate, Pass};
use crate::merge::{Creation, Update, Updates};
use crate::metrics::Metrics;
use crate::plugin::{Origin, Plugin};
use crate::runtime::Runtime;
use crate::synchronize::synchronize;
use crate::v1alpha1::{
    Container, ContainerAdjustment, ContainerEviction, ContainerUpdate, CreateContainerResponse,
    Event, LinuxResources, PluginInstance, PodSandbox, PostCreateContainerRequest,
    PostStartContainerRequest, PostUpdateContainerRequest, PostUpdatePodSandboxRequest,
    RemoveContainerRequest, RemovePodSandboxRequest, RunPodSandboxRequest, StartContainerRequest,
    StopContainerRequest, StopContainerResponse, StopPodSandboxRequest, UpdateContainerResponse,
    UpdatePodSandboxRequest, ValidateContainerAdjustmentRequest,
    ValidateContainerAdjustmentResponse,
};
use crate::validator;

/// Limit of connected plugins, more than any node has.
const MAX_PLUGINS: usize = 64;

/// The runtime's side of NRI. Cheap to clone; all clones share it.
#[derive(Debug, Clone)]
pub struct Nri(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    /// `None` if NRI is disabled.
    pub(crate) config: RwLock<Option<Arc<Config>>>,
    metrics: Metrics,
    pub(crate) runtime: OnceLock<Arc<dyn Runtime>>,
    /// Events that at least one plugin subscribes to.
    pub(crate) wanted: AtomicU32,
    /// Held by operations from before plugins are called until the outcome is visible, and while a plugin receives the
    /// node's state. So plugins miss nothing and get nothing twice.
    gate: Gate,
    /// Locked for writing during a reconfiguration.
    pub(crate) changing: Arc<tokio::sync::RwLock<()>>,
    /// Held while plugins are called for one event.
    turn: tokio::sync::Mutex<()>,
    /// In the order of the calls.
    plugins: Mutex<Vec<Arc<Plugin>>>,
    pub(crate) socket: Mutex<Option<SocketFile>>,
    /// Canceled at the next stop.
    pub(crate) stopping: Mutex<CancellationToken>,
    pub(crate) tasks: TaskTracker,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Nri")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

/// Guard of an operation: while it is held, no new plugin receives the node's state, and no reconfiguration starts.
#[derive(Debug)]
pub struct Hold(
    #[expect(dead_code, reason = "held for its end")] Option<Pass>,
    #[expect(dead_code, reason = "held for its end")] OwnedRwLockReadGuard<()>,
);

/// The plugins' changes to a container creation.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Created {
    /// Adjustment of the container.
    pub adjust: ContainerAdjustment,
    /// Updates of other containers.
    pub updates: Vec<ContainerUpdate>,
    /// Containers to stop, with the plugin that evicts them.
    pub evictions: Vec<(String, ContainerEviction)>,
}

/// The plugins' changes to a container update.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Updated {
    /// The container's new resources; `None` to keep the requested ones.
    pub resources: Option<LinuxResources>,
    /// Updates of other containers.
    pub updates: Vec<ContainerUpdate>,
    /// Containers to stop, with the plugin that evicts them.
    pub evictions: Vec<(String, ContainerEviction)>,
}

/// Information about a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginInfo {
    /// Index, which determines the order of the calls.
    pub index: String,
    /// Name of the plugin.
    pub name: String,
    /// Version of the plugin's library.
    pub version: String,
    /// Process ID of the plugin.
    pub pid: Option<u32>,
    /// Whether the runtime started it.
    pub launched: bool,
}

impl Nri {
    /// Creates the runtime's side; nothing happens before [`start`](Self::start). NRI is disabled without a
    /// configuration.
    pub fn new(config: Option<Config>, metrics: Metrics) -> Self {
        let nri = Self(Arc::new(Inner {
            config: RwLock::new(config.map(Arc::new)),
            metrics,
            runtime: OnceLock::new(),
            wanted: AtomicU32::default(),
            gate: Gate::default(),
            changing: Arc::default(),
            turn: tokio::sync::Mutex::default(),
            plugins: Mutex::default(),
            socket: Mutex::default(),
            stopping: Mutex::default(),
            tasks: TaskTracker::new(),
        }));
        nri.count(&nri.plugins());
        nri
    }

    /// Whether any plugin subscribes to an event.
    pub fn wants(&self, event: Event) -> bool {
        Events::from_raw(self.0.wanted.load(Ordering::Acquire)).has(event)
    }

    /// Whether NRI is enabled.
    pub fn is_on(&self) -> bool {
        self.0.config.read().is_some()
    }

    /// Whether plugins can connect.
    pub fn is_listening(&self) -> bool {
        self.0.socket.lock().is_some()
    }

    /// Lists the plugins in the order of the calls.
    pub fn list(&self) -> Vec<PluginInfo> {
        let info = |plugin: &Arc<Plugin>| PluginInfo {
            index: plugin.identity.index.clone(),
            name: plugin.identity.name.clone(),
            version: plugin.identity.version.clone(),
            pid: plugin.pid,
            launched: plugin.origin == Origin::Launched,
        };
        self.plugins().iter().map(info).collect()
    }

    /// Returns the configuration, if NRI is enabled.
    pub fn config(&self) -> Option<Arc<Config>> {
        self.0.config.read().clone()
    }

    /// Blocks the admission of new plugins, from before an operation calls plugins until its outcome is in the node's
    /// state. An operation must not call this twice. Waits a limited time for a plugin that is being admitted.
    pub async fn hold(&self) -> Hold {
        let stays = Arc::clone(&self.0.changing).read_owned().await;
        let Some(config) = self.config() else {
            return Hold(None, stays);
        };
        let pass = self.0.gate.pass(for_new_ones(&config)).await;
        Hold(Some(pass), stays)
    }

    /// Notifies plugins of a new pod, before it is reported to clients.
    pub async fn run_pod(&self, pod: PodSandbox) -> Result<()> {
        let request = RunPodSandboxRequest { pod: Some(pod) };
        self.tell(Event::RunPodSandbox, &request, (request.pod.as_ref(), None))
            .await
    }

    /// Notifies plugins that a pod's resources are about to change.
    pub async fn update_pod(
        &self,
        pod: PodSandbox,
        overhead: Option<LinuxResources>,
        resources: Option<LinuxResources>,
    ) -> Result<()> {
        let request = UpdatePodSandboxRequest {
            pod: Some(pod),
            overhead_linux_resources: overhead,
            linux_resources: resources,
        };
        let subject = (request.pod.as_ref(), None);
        self.tell(Event::UpdatePodSandbox, &request, subject).await
    }

    /// Notifies plugins that a pod's resources have changed.
    pub async fn post_update_pod(&self, pod: PodSandbox) -> Result<()> {
        let request = PostUpdatePodSandboxRequest { pod: Some(pod) };
        let subject = (request.pod.as_ref(), None);
        self.tell(Event::PostUpdatePodSandbox, &request, subject)
            .await
    }

    /// Notifies plugins that a pod's containers have ended while its network still exists.
    pub async fn stop_pod(&self, pod: PodSandbox) -> Result<()> {
        let request = StopPodSandboxRequest { pod: Some(pod) };
        let subject = (request.pod.as_ref(), None);
        self.tell(Event::StopPodSandbox, &request, subject).await
    }

    /// Notifies plugins that a pod is removed.
    pub async fn remove_pod(&self, pod: PodSandbox) -> Result<()> {
        let request = RemovePodSandboxRequest { pod: Some(pod) };
        let subject = (request.pod.as_ref(), None);
        self.tell(Event::RemovePodSandbox, &request, subject).await
    }

    /// Notifies plugins that a container was created, is about to start, has started, was updated or is removed.
    pub async fn container(&self, event: Event, pod: PodSandbox, own: Container) -> Result<()> {
        macro_rules! tell {
            ($request:ident) => {{
                let request = $request {
                    pod: Some(pod),
                    container: Some(own),
                };
                let subject = (request.pod.as_ref(), request.container.as_ref());
                self.tell(event, &request, subject).await
            }};
        }
        match event {
            Event::PostCreateContainer => tell!(PostCreateContainerRequest),
            Event::StartContainer => tell!(StartContainerRequest),
            Event::PostStartContainer => tell!(PostStartContainerRequest),
            Event::PostUpdateContainer => tell!(PostUpdateContainerRequest),
            Event::RemoveContainer => tell!(RemoveContainerRequest),
            // The other events have their own methods.
            _ => Ok(()),
        }
    }

    /// Asks plugins about a container that is about to be created.
    pub async fn create(&self, pod: PodSandbox, container: Container) -> Result<Created> {
        let event = Event::CreateContainer;
        let _turn = self.0.turn.lock().await;
        let plugins = self.snapshot();
        let config = self.config();
        let own_rules = config.as_ref().and_then(|config| config.validator.as_ref());
        let judged = Event::ValidateContainerAdjustment;
        let validated =
            own_rules.is_some() || plugins.iter().any(|plugin| plugin.events.has(judged));
        let pristine = validated.then(|| container.clone());
        let mut creation = Creation::new(pod, container);
        let mut asked = Vec::new();
        for plugin in plugins {
            if plugin.events.has(event) {
                let answer = plugin.ask::<CreateContainerResponse>(event, creation.request());
                let Some(answer) = self.judge(&plugin, call_of(event), answer.await)? else {
                    continue;
                };
                count_creation(&plugin, &answer);
                creation.apply(&plugin.full_name, answer)?;
            }
            asked.push(PluginInstance {
                name: plugin.identity.name.clone(),
                index: plugin.identity.index.clone(),
            });
        }
        if let Some(pristine) = pristine {
            if own_rules.is_some() {
                asked.push(PluginInstance {
                    name: validator::NAME.to_owned(),
                    index: "00".to_owned(),
                });
            }
            let request = creation.to_validate(pristine, asked);
            if let Some(rules) = own_rules {
                rules.check(&request).map_err(|reason| Error::Rejected {
                    validator: format!("00-{}", validator::NAME),
                    reason,
                })?;
            }
            // Read again, without plugins that were disconnected meanwhile.
            self.validate(&self.listeners(judged), &request).await?;
        }
        let (adjust, updates, evictions) = creation.finish();
        Ok(Created {
            adjust,
            updates: updates.into_list(),
            evictions,
        })
    }

    /// Asks plugins about a change of a container's resources.
    pub async fn update(
        &self,
        pod: PodSandbox,
        container: Container,
        asked: LinuxResources,
    ) -> Result<Updated> {
        let event = Event::UpdateContainer;
        let _turn = self.0.turn.lock().await;
        let mut update = Update::new(pod, container, asked);
        for plugin in self.listeners(event) {
            let answer = plugin.ask::<UpdateContainerResponse>(event, update.request());
            let Some(answer) = self.judge(&plugin, call_of(event), answer.await)? else {
                continue;
            };
            let (name, call) = (&plugin.full_name, call_of(event));
            plugin
                .metrics
                .changes(name, call, "update", answer.update.len());
            plugin
                .metrics
                .changes(name, call, "eviction", answer.evict.len());
            update.apply(&plugin.full_name, answer)?;
        }
        let (resources, updates, evictions) = update.finish();
        Ok(Updated {
            resources,
            updates,
            evictions,
        })
    }

    /// Notifies plugins that a container has ended. Returns the updates of other containers that they request.
    pub async fn stop_container(
        &self,
        pod: PodSandbox,
        container: Container,
    ) -> Result<Vec<ContainerUpdate>> {
        let event = Event::StopContainer;
        let request = StopContainerRequest {
            pod: Some(pod),
            container: Some(container),
        };
        let _turn = self.0.turn.lock().await;
        let mut updates = Updates::default();
        for plugin in self.listeners(event) {
            let answer = plugin.ask::<StopContainerResponse>(event, &request).await;
            let Some(answer) = self.judge(&plugin, call_of(event), answer)? else {
                continue;
            };
            let (name, call) = (&plugin.full_name, call_of(event));
            plugin
                .metrics
                .changes(name, call, "update", answer.update.len());
            updates.apply(&plugin.full_name, answer.update)?;
        }
        Ok(updates.into_list())
    }

    async fn tell(
        &self,
        event: Event,
        request: &impl Message,
        subject: (Option<&PodSandbox>, Option<&Container>),
    ) -> Result<()> {
        let (Some(pod), container) = subject else {
            return Ok(());
        };
        let _turn = self.0.turn.lock().await;
        for plugin in self.listeners(event) {
            let told = plugin.tell(event, request, (pod, container)).await;
            self.judge(&plugin, call_of(event), told)?;
        }
        Ok(())
    }

    async fn validate(
        &self,
        validators: &[Arc<Plugin>],
        request: &ValidateContainerAdjustmentRequest,
    ) -> Result<()> {
        let event = Event::ValidateContainerAdjustment;
        let asked = validators.iter().map(|plugin| async move {
            let answer = plugin.ask::<ValidateContainerAdjustmentResponse>(event, request);
            (plugin, answer.await)
        });
        for (plugin, answer) in join_all(asked).await {
            match answer {
                Ok(answer) if answer.reject => {
                    let reason = match answer.reason.as_str() {
                        "" => "it gave no reason".to_owned(),
                        reason => reason.to_owned(),
                    };
                    let validator = plugin.full_name.clone();
                    return Err(Error::Rejected { validator, reason });
                }
                Ok(_) => {}
                Err(source) if source.is_unimplemented() => {}
                // Without the validator's answer, the adjustment is rejected.
                Err(source) => {
                    if source.is_fatal() {
                        self.give_up(plugin, &source.to_string());
                    }
                    return Err(failed(plugin, call_of(event), source));
                }
            }
        }
        Ok(())
    }

    /// Interprets the result of a call: a response, an error, or the disconnection of the plugin.
    fn judge<T>(
        &self,
        plugin: &Arc<Plugin>,
        call: &'static str,
        answer: Result<T, CallError>,
    ) -> Result<Option<T>> {
        match answer {
            Ok(answer) => Ok(Some(answer)),
            Err(source) if source.is_fatal() => {
                self.give_up(plugin, &format!("{call}: {source}"));
                Ok(None)
            }
            // The plugin subscribes to all events, and its library does not know this one.
            Err(source) if source.is_unimplemented() => Ok(None),
            Err(source) => Err(failed(plugin, call, source)),
        }
    }

    /// Disconnects a plugin; operations continue without it.
    fn give_up(&self, plugin: &Arc<Plugin>, reason: &str) {
        plugin.connection.close(reason);
        self.forget(plugin, reason);
    }

    fn forget(&self, plugin: &Arc<Plugin>, reason: &str) {
        let mut plugins = self.plugins();
        let before = plugins.len();
        plugins.retain(|own| !Arc::ptr_eq(own, plugin));
        if plugins.len() < before {
            self.count(&plugins);
            tracing::warn!(
                plugin = plugin.full_name,
                reason,
                "an NRI plugin disconnected"
            );
        }
    }

    /// Sends a new plugin the node's state, and admits it to further events.
    pub(crate) async fn take_in(&self, plugin: Plugin) -> Result<(), String> {
        let plugin = Arc::new(plugin);
        let taken = self.synchronized(&plugin).await;
        let updates = taken.map_err(|problem| {
            plugin.connection.close(problem.clone());
            format!("{}: {problem}", plugin.full_name)
        })?;
        tracing::info!(
            plugin = plugin.full_name,
            version = plugin.identity.version,
            pid = plugin.pid,
            "registered an NRI plugin"
        );
        let (nri, own) = (self.clone(), Arc::clone(&plugin));
        self.attend(async move {
            let reason = own.connection.closed().await;
            nri.forget(&own, &reason);
        });
        if !updates.is_empty()
            && let Some(runtime) = self.0.runtime.get()
        {
            let name = plugin.full_name.clone();
            plugin
                .metrics
                .changes(&name, "Synchronize", "update", updates.len());
            runtime.update(name, updates).await;
        }
        Ok(())
    }

    async fn synchronized(&self, plugin: &Arc<Plugin>) -> Result<Vec<ContainerUpdate>, String> {
        let config = self.config().ok_or("NRI is disabled")?;
        let runtime = self
            .0
            .runtime
            .get()
            .ok_or("the runtime is still starting")?;
        let closed = self.0.gate.close().await;
        let closed = closed.ok_or("the node is too busy to send its state; connect again")?;
        let (pods, containers) = runtime.snapshot().await;
        let limit = config.registration_timeout;
        let updates = synchronize(plugin, pods, containers, limit).await?;
        let admitted = closed.unless_overtaken(|| self.admit(plugin));
        admitted.unwrap_or_else(|| {
            let limit = for_new_ones(&config);
            let problem = "the node changed while the plugin received its state, which took over";
            Err(format!("{problem} {limit:?}; connect again"))
        })?;
        Ok(updates)
    }

    fn admit(&self, plugin: &Arc<Plugin>) -> Result<(), String> {
        let mut plugins = self.plugins();
        if plugins.len() >= MAX_PLUGINS {
            return Err(format!("the limit of {MAX_PLUGINS} plugins is reached"));
        }
        if self.0.stopping.lock().is_cancelled() {
            return Err("the runtime is shutting down".to_owned());
        }
        plugins.push(Arc::clone(plugin));
        // The sort is stable: plugins with the same index keep their age order.
        plugins.sort_by(|one, other| one.identity.index.cmp(&other.identity.index));
        self.count(&plugins);
        Ok(())
    }

    /// Handles updates and evictions that a plugin requests on its own.
    pub(crate) async fn unsolicited(
        &self,
        plugin: &str,
        updates: Vec<ContainerUpdate>,
        evictions: Vec<ContainerEviction>,
    ) -> Vec<ContainerUpdate> {
        let Some(runtime) = self.0.runtime.get() else {
            return updates;
        };
        let metrics = &self.0.metrics;
        metrics.changes(plugin, "UpdateContainers", "update", updates.len());
        metrics.changes(plugin, "UpdateContainers", "eviction", evictions.len());
        if !evictions.is_empty() {
            runtime.evict(plugin.to_owned(), evictions).await;
        }
        if updates.is_empty() {
            return updates;
        }
        runtime.update(plugin.to_owned(), updates).await
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// Runs a background task that ends with its plugin.
    pub(crate) fn attend(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.0.tasks.spawn(work);
    }

    pub(crate) fn plugins(&self) -> MutexGuard<'_, Vec<Arc<Plugin>>> {
        self.0.plugins.lock()
    }

    fn snapshot(&self) -> Vec<Arc<Plugin>> {
        self.plugins().clone()
    }

    fn listeners(&self, event: Event) -> Vec<Arc<Plugin>> {
        let plugins = self.plugins();
        let wanted = plugins.iter().filter(|plugin| plugin.events.has(event));
        wanted.cloned().collect()
    }

    pub(crate) fn count(&self, plugins: &[Arc<Plugin>]) {
        let all = plugins.iter().map(|plugin| plugin.events);
        let mut wanted = all.fold(Events::NONE, Events::union);
        let config = self.config();
        let rules = config.is_some_and(|own| own.validator.is_some());
        if rules || wanted.has(Event::ValidateContainerAdjustment) {
            wanted = wanted.and(Event::CreateContainer);
        }
        self.0.wanted.store(wanted.raw(), Ordering::Release);
        self.0.metrics.plugins(plugins.len());
    }
}

fn count_creation(plugin: &Plugin, answer: &CreateContainerResponse) {
    let (name, call) = (&plugin.full_name, call_of(Event::CreateContainer));
    let adjusted = answer
        .adjust
        .as_ref()
        .is_some_and(|adjust| *adjust != ContainerAdjustment::default());
    let metrics = &plugin.metrics;
    metrics.changes(name, call, "adjustment", usize::from(adjusted));
    metrics.changes(name, call, "update", answer.update.len());
    metrics.changes(name, call, "eviction", answer.evict.len());
}

fn failed(plugin: &Plugin, call: &'static str, source: CallError) -> Error {
    Error::Plugin {
        plugin: plugin.full_name.clone(),
        call,
        source,
    }
}

/// Time that operations wait for a plugin that receives the node's state. It is longer than the limit of an answer, so
/// that a plugin that needs all of it misses nothing.
fn for_new_ones(config: &Config) -> Duration {
    config.request_timeout * 3 / 2
}

#[cfg(test)]
#[path = "nri_tests.rs"]
mod tests;
