//! The runtime's side: who is asked about what, in which order.
//!
//! Plugins are asked one after the other, by their index, and about one thing at a time. One that
//! refuses makes the operation fail; one that does not answer, or answers nonsense, is closed and
//! the operation goes on without it.

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

/// More plugins than any node has.
const MAX_PLUGINS: usize = 64;

/// The runtime's side. Cheap to clone; all clones are one.
#[derive(Debug, Clone)]
pub struct Nri(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    /// None where the interface is switched off.
    pub(crate) config: RwLock<Option<Arc<Config>>>,
    metrics: Metrics,
    pub(crate) runtime: OnceLock<Arc<dyn Runtime>>,
    /// The events that anybody wants to hear of.
    pub(crate) wanted: AtomicU32,
    /// Held by operations from when plugins are asked until the outcome can be seen, and by the
    /// telling of the node's state: so nothing is missed, and nothing is told twice.
    gate: Gate,
    /// Written while another configuration takes the place of this.
    pub(crate) changing: Arc<tokio::sync::RwLock<()>>,
    /// Held while plugins are asked about one thing.
    turn: tokio::sync::Mutex<()>,
    /// In the order in which they are asked.
    plugins: Mutex<Vec<Arc<Plugin>>>,
    pub(crate) socket: Mutex<Option<SocketFile>>,
    /// Of this time that it is up.
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

/// While it is held, no new plugin is told the node's state, and who there is stays.
#[derive(Debug)]
pub struct Hold(
    #[expect(dead_code, reason = "held for its end")] Option<Pass>,
    #[expect(dead_code, reason = "held for its end")] OwnedRwLockReadGuard<()>,
);

/// What is to become of a container, and of others because of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Created {
    /// What is to be different of it.
    pub adjust: ContainerAdjustment,
    /// Updates of others.
    pub updates: Vec<ContainerUpdate>,
    /// Containers to be ended, with the plugin that wants it.
    pub evictions: Vec<(String, ContainerEviction)>,
}

/// What is to become of an update.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Updated {
    /// What the container is to get instead; none where it gets what was asked for.
    pub resources: Option<LinuxResources>,
    /// Updates of others.
    pub updates: Vec<ContainerUpdate>,
    /// Containers to be ended, with the plugin that wants it.
    pub evictions: Vec<(String, ContainerEviction)>,
}

/// A plugin, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginInfo {
    /// Its place in the order.
    pub index: String,
    /// Its name.
    pub name: String,
    /// The version of its library.
    pub version: String,
    /// Its process.
    pub pid: Option<u32>,
    /// Whether it was started by the runtime.
    pub launched: bool,
}

impl Nri {
    /// Makes it; nothing happens before [`start`](Self::start). Without a configuration it is
    /// switched off.
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

    /// Whether anybody wants to hear of an event.
    pub fn wants(&self, event: Event) -> bool {
        Events::from_raw(self.0.wanted.load(Ordering::Acquire)).has(event)
    }

    /// Whether it is switched on at all.
    pub fn is_on(&self) -> bool {
        self.0.config.read().is_some()
    }

    /// Whether plugins can connect.
    pub fn is_listening(&self) -> bool {
        self.0.socket.lock().is_some()
    }

    /// The plugins, in the order in which they are asked.
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

    /// The configuration, where it is switched on.
    pub fn config(&self) -> Option<Arc<Config>> {
        self.0.config.read().clone()
    }

    /// Keeps new plugins from being told the node's state: from before plugins are asked about an
    /// operation until its outcome is in that state. Not to be taken twice by one operation. A
    /// new plugin that is being told it is waited for a while.
    pub async fn hold(&self) -> Hold {
        let stays = Arc::clone(&self.0.changing).read_owned().await;
        let Some(config) = self.config() else {
            return Hold(None, stays);
        };
        let pass = self.0.gate.pass(for_new_ones(&config)).await;
        Hold(Some(pass), stays)
    }

    /// A pod is there, about to be reported.
    pub async fn run_pod(&self, pod: PodSandbox) -> Result<()> {
        let request = RunPodSandboxRequest { pod: Some(pod) };
        self.tell(Event::RunPodSandbox, &request, (request.pod.as_ref(), None))
            .await
    }

    /// A pod's resources are about to change.
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

    /// They have.
    pub async fn post_update_pod(&self, pod: PodSandbox) -> Result<()> {
        let request = PostUpdatePodSandboxRequest { pod: Some(pod) };
        let subject = (request.pod.as_ref(), None);
        self.tell(Event::PostUpdatePodSandbox, &request, subject)
            .await
    }

    /// A pod's containers have ended, its network is still there.
    pub async fn stop_pod(&self, pod: PodSandbox) -> Result<()> {
        let request = StopPodSandboxRequest { pod: Some(pod) };
        let subject = (request.pod.as_ref(), None);
        self.tell(Event::StopPodSandbox, &request, subject).await
    }

    /// A pod is gone.
    pub async fn remove_pod(&self, pod: PodSandbox) -> Result<()> {
        let request = RemovePodSandboxRequest { pod: Some(pod) };
        let subject = (request.pod.as_ref(), None);
        self.tell(Event::RemovePodSandbox, &request, subject).await
    }

    /// A container was made, is about to start, has started, has been updated or is gone.
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
            // The others have answers of their own.
            _ => Ok(()),
        }
    }

    /// A container is about to be made.
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
            // Not those that were given up meanwhile.
            self.validate(&self.listeners(judged), &request).await?;
        }
        let (adjust, updates, evictions) = creation.finish();
        Ok(Created {
            adjust,
            updates: updates.into_list(),
            evictions,
        })
    }

    /// A container's resources are about to change.
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

    /// A container has ended. Gives back the updates of others.
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
                // What is not judged is not allowed.
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

    /// What an answer means: a result, a refusal, or the end of the plugin.
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
            // It asked for all events, and knows fewer than there are.
            Err(source) if source.is_unimplemented() => Ok(None),
            Err(source) => Err(failed(plugin, call, source)),
        }
    }

    /// Closes a plugin. Operations go on without it.
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

    /// Tells a new plugin the node's state, and lets it take part from then on.
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
        // Of several with one index, the older ones first.
        plugins.sort_by(|one, other| one.identity.index.cmp(&other.identity.index));
        self.count(&plugins);
        Ok(())
    }

    /// A plugin wants something of its own accord.
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

    /// Has something go on in the background that ends with its plugin.
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

/// How long operations wait for a plugin that is told the node's state: longer than for an answer,
/// so that one which takes all of its time for that loses none of what is made meanwhile.
fn for_new_ones(config: &Config) -> Duration {
    config.request_timeout * 3 / 2
}

#[cfg(test)]
#[path = "nri_tests.rs"]
mod tests;
