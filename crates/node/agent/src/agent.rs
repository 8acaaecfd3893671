//! The agent: sources, admission, eviction and the HTTP API around one manager.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use orlop_kubelet_rules::phase::PodPhase;
use orlop_kubelet_rules::pod::Pod;
use orlop_kuberuntime::manager::{Change, Manager, Shutdown, Stage, Watch};
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::applied::AppliedManifests;
use super::capacity::Capacity;
use super::eviction::{Pressure, Thresholds};
use super::http::Servers;
use super::manifest::SourceKind;
use super::roster::{Order, Roster};
use super::shared::{Shared, private_directory};
use super::source::{
    LastGood, Outlet, Store, Texts, UPDATES, Update, UrlSource, directory, stdin, url,
};
use super::{AgentError, AgentOptions, AtEnd, evictor};

/// Shutdown timeout of pods that stop with the agent, if the configuration sets none; longer than
/// usual grace periods.
const LONGEST_SHUTDOWN: Duration = Duration::from_mins(2);

/// A running node agent.
#[derive(Debug)]
pub struct Agent {
    shared: Shared,
    roster: Roster,
    updates: mpsc::Receiver<Update>,
    watch: Watch,
    pressure: Pressure,
    sources: JoinSet<()>,
    servers: Servers,
    before: BTreeSet<String>,
    ready: bool,
}

/// A handle to a running agent, for a user interface.
#[derive(Debug, Clone)]
pub struct AgentHandle(Shared);

impl AgentHandle {
    /// Returns the manager of the pods.
    pub fn manager(&self) -> &Manager {
        self.0.manager()
    }

    /// Returns the problems of the manifests.
    pub fn remarks(&self) -> Vec<super::Remark> {
        self.0.remarks()
    }

    /// Returns the manifests for a web page: objects with `file`, `pod`, `namespace`, `uid`, `ok`,
    /// `problems` and `probes`.
    pub fn manifests(&self) -> serde_json::Value {
        self.0.manifests()
    }
}

impl Agent {
    /// Connects to the runtime, opens the servers and starts reading the sources. Pods that already
    /// run keep running.
    pub async fn start(options: AgentOptions) -> Result<Self, AgentError> {
        let configuration = &options.configuration;
        let root = options.root_dir.clone();
        private_directory(&root)?;
        let thresholds = Thresholds::read(configuration).map_err(AgentError::Setting)?;
        let capacity = Capacity::of_this_machine(configuration, &thresholds, &root)
            .map_err(AgentError::Setting)?;
        let pressure = Pressure::new(
            thresholds,
            configuration.eviction_pressure_transition_period,
        );
        super::access::check(&options)?;
        let last_good = root.join("manifests");
        let last_good = LastGood::open(last_good.clone()).map_err(|source| AgentError::File {
            path: last_good,
            source,
        })?;
        let store = Store::open(&root.join("applied"), &options.node_name)
            .map_err(|error| AgentError::Setting(error.to_string()))?;
        let url_source = match configuration.static_pod_url.as_str() {
            "" => None,
            url => Some(
                UrlSource::new(url, &configuration.static_pod_url_header)
                    .map_err(AgentError::Setting)?,
            ),
        };

        let mut manager_options = options.manager()?;
        if let Some(memory) = capacity.allocatable.get("memory") {
            manager_options.node.allocatable_memory = u64::try_from(memory.units()).unwrap_or(0);
        }
        if let Some(cpu) = capacity.allocatable.get("cpu") {
            manager_options.node.allocatable_cpu_milli = u64::try_from(cpu.milli()).unwrap_or(0);
        }
        let manager = Manager::start(manager_options).await?;
        let watch = manager.watch();
        let there = manager.pods();
        let there = there.iter().filter(|pod| pod.reason.is_empty());
        let strangers: BTreeMap<String, Arc<Pod>> = there
            .filter_map(|view| {
                let pod = Pod::deserialize(&*view.manifest).ok()?;
                Some((view.uid.clone(), Arc::new(pod)))
            })
            .collect();
        let before = strangers.keys().cloned().collect();

        let (sender, updates) = mpsc::channel(UPDATES);
        let mut sources = JoinSet::new();
        let mut places = 0;
        let mut next = || {
            places += 1;
            Outlet {
                place: places - 1,
                updates: sender.clone(),
            }
        };
        let texts = |kind| Texts::new(kind, &options.node_name, last_good.clone());
        if !configuration.static_pod_path.is_empty() {
            let path = PathBuf::from(&configuration.static_pod_path);
            let period = configuration.file_check_frequency;
            sources.spawn(directory(path, period, texts(SourceKind::File), next()));
        }
        if let Some(source) = url_source {
            let period = configuration.http_check_frequency;
            sources.spawn(url(source, period, texts(SourceKind::Http), next()));
        }
        if options.stdin {
            sources.spawn(stdin(texts(SourceKind::File), next()));
        }
        let store_outlet = next();
        let shared = Shared::new(
            manager,
            options,
            capacity,
            AppliedManifests::new((store_outlet.place, store), store_outlet.updates),
        );
        let speaking = shared.clone();
        sources.spawn(async move {
            // Send the first snapshot of the applied objects.
            let _ = speaking.applied().change(|_| ()).await;
        });
        let servers = Servers::start(&shared).await?;
        Ok(Self {
            roster: Roster::new(places, strangers),
            shared,
            updates,
            watch,
            pressure,
            sources,
            servers,
            before,
            ready: false,
        })
    }

    /// Returns a handle to the agent.
    pub fn handle(&self) -> AgentHandle {
        AgentHandle(self.shared.clone())
    }

    /// Returns the address of the HTTPS server, if there is one.
    pub fn address(&self) -> Option<std::net::SocketAddr> {
        self.servers.address()
    }

    /// Runs the agent until `stop` is cancelled.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut look = Instant::now();
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                update = self.updates.recv() => {
                    let Some((place, snapshot)) = update else { break };
                    self.roster.hear(place, snapshot);
                    self.reconcile();
                }
                change = self.watch.next() => match change {
                    Some(Ok(change)) => self.heed(change),
                    // Changes were missed, so look at all pods.
                    Some(Err(_)) => self.look_at_all(),
                    None => break,
                },
                () = sleep_until(look), if !self.pressure.is_idle() => {
                    let pause = evictor::look(&self.shared, &mut self.pressure, &mut self.roster).await;
                    look = Instant::now() + pause;
                    self.reconcile();
                }
                Some(ended) = self.sources.join_next() => {
                    if let Err(error) = ended {
                        tracing::error!(%error, "a manifest source stopped unexpectedly; its pods keep running \
                             unchanged");
                    }
                }
            }
        }
        self.finish().await;
    }

    /// Applies what the sources want, as far as possible now.
    fn reconcile(&mut self) {
        let gate = self.shared.gate();
        let orders = self.roster.orders(&gate, &self.before);
        self.shared.set_remarks(self.roster.remarks());
        let manager = self.shared.manager();
        for order in orders {
            match order {
                Order::Remove(uid) => manager.remove_pod(&uid, None),
                Order::Set(input) => {
                    self.note_origin(input.uid());
                    manager.set_pod(input);
                }
                Order::Reject(input, rejection) => {
                    tracing::warn!(
                        pod = input.full_name(),
                        reason = rejection.reason,
                        "{}",
                        rejection.message
                    );
                    self.note_origin(input.uid());
                    manager.reject_pod(input, &rejection.reason, &rejection.message);
                }
            }
        }
        if !self.ready && self.roster.is_complete() {
            self.ready = true;
            self.before.clear();
            self.roster.dismiss_strangers();
            manager.sources_ready();
            self.shared.set_sources_read();
        }
    }

    fn note_origin(&self, uid: &str) {
        if let Some(origin) = self.roster.origin(uid) {
            self.shared.set_origin(uid, origin);
        }
    }

    fn heed(&mut self, change: Change) {
        match change {
            Change::Pod { uid } => {
                if self.look_at(&uid) {
                    self.reconcile();
                }
            }
            Change::Gone { uid } => {
                self.roster.gone(&uid);
                self.shared.forget_origin(&uid);
                self.reconcile();
            }
            Change::Event(event) => self.shared.add_event(event),
        }
    }

    /// Whether a pod's end or return changes the free resources.
    fn look_at(&mut self, uid: &str) -> bool {
        let pod = self.shared.manager().pod(uid);
        let over = pod.is_some_and(|pod| {
            pod.stage == Stage::Terminated
                || matches!(pod.phase, PodPhase::Succeeded | PodPhase::Failed)
        });
        self.roster.set_over(uid, over)
    }

    fn look_at_all(&mut self) {
        let pods = self.shared.manager().pods();
        let there: BTreeSet<_> = pods.iter().map(|pod| pod.uid.clone()).collect();
        for uid in &there {
            self.look_at(uid);
        }
        for uid in self.roster.leaving_besides(&there) {
            self.roster.gone(&uid);
        }
        self.reconcile();
    }

    /// Shuts down in order: the sources, the servers, then the pods if they are to stop.
    async fn finish(mut self) {
        self.sources.shutdown().await;
        let written = self.shared.configuration();
        let manager = self.shared.manager().clone();
        match self.shared.options().at_end {
            AtEnd::Leave => manager.shutdown(Shutdown::Leave).await,
            AtEnd::Stop => {
                let mut groups = super::shutdown::groups(written, LONGEST_SHUTDOWN);
                let last = groups.pop();
                for group in groups {
                    let pods = self.roster.running();
                    let uids: Vec<String> = pods
                        .filter(|input| group.holds(input.pod.spec.priority.unwrap_or(0)))
                        .map(|input| input.uid().to_owned())
                        .collect();
                    self.stop(&uids, group.grace).await;
                }
                let at_most = last.map_or(LONGEST_SHUTDOWN, |group| group.grace);
                manager.shutdown(Shutdown::Stop { at_most }).await;
            }
        }
        self.servers.stop().await;
    }

    /// Stops some pods and waits until they have ended.
    async fn stop(&mut self, uids: &[String], grace: Duration) {
        const AFTER: Duration = Duration::from_secs(5);
        let manager = self.shared.manager().clone();
        for uid in uids {
            let own = manager.pod(uid).and_then(|pod| {
                let own = &pod.manifest["spec"]["terminationGracePeriodSeconds"];
                own.as_u64().map(Duration::from_secs)
            });
            manager.remove_pod(uid, Some(own.unwrap_or(grace).min(grace)));
        }
        let all = async {
            while uids.iter().any(|uid| manager.pod(uid).is_some()) {
                if self.watch.next().await.is_none() {
                    return;
                }
            }
        };
        if timeout(grace + AFTER, all).await.is_err() {
            tracing::warn!("some pods did not stop within their grace period");
        }
    }
}
