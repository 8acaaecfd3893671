//! The native runtime service: what it holds, and how it comes up and goes down.

use std::fmt;
use std::fs::Permissions;
use std::ops::Deref;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};

use orlop_cgroup::Driver;
use orlop_cri::v1::{
    ContainerEventResponse, ContainerEventType, ContainerFilter, ContainerStatus, ImageSpec,
    NamespaceMode, PodSandboxFilter,
};
use orlop_image::{Image, Images};
use orlop_network::Networks;
use orlop_nri::Nri;
use orlop_service::exec_output::OutputBudget;
use orlop_service::joins::Joins;
use tokio_util::task::TaskTracker;

use crate::cgroups::Cgroups;
use crate::config::Config;
use crate::container::{Container, Phase};
use crate::error::{Error, Result, chain};
use crate::events::Events;
use crate::execs::Execs;
use crate::ids::{ContainerId, PodId};
use crate::labels::AllottedLevels;
use crate::messages::{container_matches, container_status, pod_matches, pod_status};
use crate::metrics::Metrics;
use crate::names::{ContainerName, PodName};
use crate::nri::PluginRuntime;
use crate::pod::Pod;
use crate::pulls::Pulls;
use crate::runtimes::Runtimes;
use crate::spec::{self, AppArmor, HostFacts};
use crate::store::Store;
use crate::streaming::Sessions;
use crate::timeline::{Trace, Traces};
use crate::{blocking, clock, images, network_gc, pid_namespace, restore, tidy};

/// The native runtime service. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

/// The service, as long as others hold it.
#[derive(Clone)]
pub struct WeakEngine(Weak<Inner>);

impl fmt::Debug for WeakEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakEngine").finish_non_exhaustive()
    }
}

impl WeakEngine {
    /// The service, if it is still there.
    pub fn upgrade(&self) -> Option<Engine> {
        self.0.upgrade().map(Engine)
    }
}

/// What the service holds.
pub struct Inner {
    /// What it was told.
    pub config: Config,
    /// Who makes cgroups.
    pub cgroup_driver: Driver,
    /// The pods' and containers' cgroups.
    pub cgroups: Cgroups,
    /// What this node is like.
    pub host: HostFacts,
    /// The pods.
    pub pods: Store<Pod>,
    /// The containers of all pods.
    pub containers: Store<Container>,
    /// The image store.
    pub images: Images,
    /// The pulls that clients asked for.
    pub pulls: Arc<Pulls>,
    /// The pods' networks.
    pub networks: Networks,
    /// The runtime handlers.
    pub runtimes: Runtimes,
    /// The pods' SELinux levels.
    pub levels: AllottedLevels,
    /// The subscribers of events.
    pub events: Events,
    /// The plugins that take part.
    pub nri: Nri,
    /// What is counted.
    pub metrics: Metrics,
    /// The latest starts of pods and pulls.
    pub traces: Traces,
    /// Commands under way.
    pub execs: Execs,
    /// The memory for what those print whose output is waited for.
    pub exec_outputs: OutputBudget,
    /// Pods being made.
    pub sandboxes: Joins<PodName, PodId, Error>,
    /// Containers being made.
    pub creations: Joins<ContainerName, ContainerId, Error>,
    /// Other work that callers may share.
    pub works: Joins<(Work, String), (), Error>,
    /// What goes on in the background.
    pub tasks: TaskTracker,
    streams: OnceLock<orlop_stream::Server>,
}

/// Work on a pod or container that two callers do not do twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Work {
    /// `StopPodSandbox`.
    StopPod,
    /// `RemovePodSandbox`.
    RemovePod,
    /// `StartContainer`.
    StartContainer,
    /// `RemoveContainer`.
    RemoveContainer,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("root", &self.config.root)
            .finish_non_exhaustive()
    }
}

impl Deref for Engine {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl Engine {
    /// Opens the stores, finds the runtimes, and takes up what an earlier run left.
    pub async fn start(config: Config, metrics: Metrics) -> Result<Self> {
        let (root, state) = (config.root.clone(), config.state.clone());
        // Statistics of many pods are read from files that stay open.
        if let Err(error) = orlop_launch::raise_open_files() {
            tracing::warn!(%error, "cannot raise the number of files that may be open");
        }
        blocking(move || prepare_directories(&root, &state)).await?;
        let (cgroups, host) = {
            let config = config.clone();
            blocking(move || {
                let cgroups = Cgroups::find(&config)?;
                let host =
                    HostFacts::detect(cgroups.hierarchies(), cgroups.driver(), default_apparmor())
                        .map_err(Error::io("looking at this node"))?;
                Ok((cgroups, host))
            })
            .await?
        };
        let cgroup_driver = cgroups.driver();
        // Side by side: each waits for the disk or for programs.
        let (images, networks, runtimes) = tokio::join!(
            open_images(&config),
            open_networks(&config),
            Runtimes::find(&config, cgroup_driver),
        );
        cgroups.remove_trials().await;
        let (images, networks, runtimes) = (images?, networks?, runtimes?);
        let nri = Nri::new(config.nri.clone(), metrics.plugins().clone());
        let exec_outputs = OutputBudget::new(
            config.containers.exec_output_memory,
            config.containers.message_limit,
        );
        let engine = Self(Arc::new(Inner {
            config,
            cgroup_driver,
            cgroups,
            host,
            pods: Store::new("pod sandbox"),
            containers: Store::new("container"),
            images,
            pulls: Arc::default(),
            networks,
            runtimes,
            levels: AllottedLevels::default(),
            events: Events::default(),
            traces: Traces::new(metrics.timeline.clone()),
            nri,
            metrics,
            execs: Execs::default(),
            exec_outputs,
            sandboxes: Joins::default(),
            creations: Joins::default(),
            works: Joins::default(),
            tasks: TaskTracker::new(),
            streams: OnceLock::new(),
        }));
        let left = restore::run(&engine).await?;
        engine.serve_streams().await?;
        let plugins_see = PluginRuntime(engine.downgrade());
        engine.nri.start(Arc::new(plugins_see)).await;
        let engine_too = engine.clone();
        engine
            .tasks
            .spawn(async move { tidy::run(&engine_too, left).await });
        if let Some(every) = engine.config.network_gc_interval {
            network_gc::start(&engine, every);
        }
        Ok(engine)
    }

    /// For whoever must not keep it alive.
    pub fn downgrade(&self) -> WeakEngine {
        WeakEngine(Arc::downgrade(&self.0))
    }

    async fn serve_streams(&self) -> Result<()> {
        let serving = self.config.streaming.serve(Sessions(self.clone()));
        let server = serving.await.map_err(Error::Internal)?;
        // Set here only.
        let _ = self.streams.set(server);
        Ok(())
    }

    /// Lets go of what the daemon holds; pods go on. A node without pods is left as it was found.
    pub async fn stop(&self) {
        self.nri.stop().await;
        self.images.close().await;
        if self.pods.all().iter().any(|pod| pod.now().keeper.is_some()) {
            return;
        }
        let private = self.private_dir();
        let unmounted = blocking(move || {
            rustix::mount::unmount(&private, rustix::mount::UnmountFlags::NOFOLLOW)
                .map_err(|errno| {
                    Error::io(format!("unmounting {}", private.display()))(errno.into())
                })
                .map_err(Into::into)
        });
        if let Err(error) = unmounted.await {
            tracing::debug!(
                error = chain(&*error),
                "leaving the private directory mounted"
            );
        }
    }

    /// Where exec, attach and port-forward sessions are served.
    pub fn streams(&self) -> Result<&orlop_stream::Server> {
        self.streams
            .get()
            .ok_or_else(|| Error::Internal("the streaming server is not up yet".into()).into())
    }

    /// Runs work to its end even if the caller leaves.
    pub async fn finish<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        self.tasks.spawn(work).await.unwrap_or_else(|failure| {
            Err(Error::Internal(format!("the operation ended abnormally: {failure}")).into())
        })
    }

    /// The directory of the pods' records.
    pub fn pods_dir(&self) -> PathBuf {
        self.config.root.join("pods")
    }

    /// The directory of what lives only as long as the pods do.
    pub fn runs_dir(&self) -> PathBuf {
        self.config.state.join("pods")
    }

    /// Where a pod's network namespace is pinned.
    pub fn net_pin(&self, pod: &Pod) -> PathBuf {
        self.config.state.join("netns").join(pod.id.as_str())
    }

    /// Below here keepers mount what the host does not see.
    fn private_dir(&self) -> PathBuf {
        private_dir(&self.config.state)
    }

    /// Where a pod's shared memory is mounted, by its keeper.
    pub fn shm_dir(&self, pod: &Pod) -> PathBuf {
        self.private_dir().join("shm").join(pod.id.as_str())
    }

    /// Where a container's root file system and image volumes are mounted, by its pod's keeper.
    pub fn mounts_dir(&self, container: &Container) -> PathBuf {
        self.private_dir()
            .join("rootfs")
            .join(container.id.as_str())
    }

    /// What a pod's containers have as `/dev/shm`.
    pub fn shm_for(&self, pod: &Pod) -> PathBuf {
        match pod.namespaces().ipc() {
            NamespaceMode::Node => PathBuf::from("/dev/shm"),
            _ => self.shm_dir(pod),
        }
    }

    /// The namespaces that a container joins.
    pub fn namespaces_for(&self, container: &Container) -> Result<spec::PodNamespaces> {
        let pod = &container.pod;
        let keeper = pod.keeper()?;
        let modes = pod.namespaces();
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        let own_net = modes.network() != NamespaceMode::Node;
        let security = container
            .config
            .linux
            .as_ref()
            .and_then(|linux| linux.security_context.as_ref());
        let asked = security
            .and_then(|context| context.namespace_options.clone())
            .unwrap_or_default();
        if modes.pid() == NamespaceMode::Pod && keeper.pid_ns().is_none() {
            return Err(pid_namespace::gone(pod.id.as_str()).into());
        }
        let target_pid = match asked.pid() {
            NamespaceMode::Target => Some(self.pid_namespace_of(pod, &asked.target_id)?),
            _ => None,
        };
        Ok(spec::PodNamespaces {
            network: own_net.then(|| text(keeper.net_ns())),
            ipc: (modes.ipc() != NamespaceMode::Node).then(|| text(keeper.ipc_ns())),
            uts: own_net.then(|| text(keeper.uts_ns())),
            pid: keeper.pid_ns().map(text),
            target_pid,
            user: spec::IdRanges::parse(Some(modes))
                .map_err(Error::Spec)?
                .map(|_| text(pod.user_ns())),
        })
    }

    fn pid_namespace_of(&self, pod: &Pod, target: &str) -> Result<String> {
        const FIELD: &str = "config.linux.security_context.namespace_options.target_id";
        let container = self.containers.find(target)?;
        if container.pod.id != pod.id {
            let problem = format!("container {} belongs to another pod", container.id);
            return Err(Error::invalid(FIELD, problem).into());
        }
        let pid = container.pid().ok_or_else(|| {
            Error::Precondition(format!(
                "{FIELD}: container {} is not running",
                container.id
            ))
        })?;
        Ok(format!("/proc/{pid}/ns/pid"))
    }

    /// The pods that clients may see, in the order of their creation.
    pub fn visible_pods(&self, filter: Option<&PodSandboxFilter>) -> Vec<Arc<Pod>> {
        let mut pods = self.pods.all();
        pods.retain(|pod| pod.visible() && pod_matches(pod, filter));
        pods.sort_by_key(|pod| std::cmp::Reverse(pod.created_at));
        pods
    }

    /// The containers that clients may see, newest first.
    pub fn visible_containers(&self, filter: Option<&ContainerFilter>) -> Vec<Arc<Container>> {
        let mut containers = self.containers.all();
        containers.retain(|one| one.visible() && container_matches(one, filter));
        containers.sort_by_key(|container| std::cmp::Reverse(container.created_at));
        containers
    }

    /// A pod's containers, also those that no client sees.
    pub fn containers_of(&self, pod: &Pod) -> Vec<Arc<Container>> {
        self.containers.owned_by(pod.id.as_str())
    }

    /// The pod of this identity.
    pub fn pod_named(&self, name: &PodName) -> Option<Arc<Pod>> {
        self.pods.named(name)
    }

    /// The container of this identity.
    pub fn container_named(&self, name: &ContainerName) -> Option<Arc<Container>> {
        self.containers.named(name)
    }

    /// A pod that a client may ask about.
    pub fn visible_pod(&self, id: &str) -> Result<Arc<Pod>> {
        let pod = self.pods.find(id)?;
        if pod.visible() {
            return Ok(pod);
        }
        let id = id.to_owned();
        Err(Error::NotFound {
            what: "pod sandbox",
            id,
        }
        .into())
    }

    /// A container that a client may ask about.
    pub fn visible_container(&self, id: &str) -> Result<Arc<Container>> {
        let container = self.containers.find(id)?;
        if container.visible() {
            return Ok(container);
        }
        let id = id.to_owned();
        Err(Error::NotFound {
            what: "container",
            id,
        }
        .into())
    }

    /// A container that commands can be run in.
    pub fn running_container(&self, id: &str) -> Result<Arc<Container>> {
        let container = self.containers.find(id)?;
        if container.phase() != Phase::Running {
            let state = container.state().as_str_name();
            let problem = format!("container {} is not running, it is {state}", container.id);
            return Err(Error::Precondition(problem).into());
        }
        Ok(container)
    }

    /// The image that a request names.
    pub fn image_for(&self, field: &str, spec: Option<&ImageSpec>) -> Result<Image> {
        let name = spec.map(|spec| spec.image.as_str()).unwrap_or_default();
        if name.is_empty() {
            return Err(Error::invalid(format!("{field}.image"), "is empty").into());
        }
        images::find(self, name)?.ok_or_else(|| {
            Error::NotFound {
                what: "image",
                id: name.to_owned(),
            }
            .into()
        })
    }

    /// Where the time of a pod's start went.
    pub fn trace_of(&self, pod: &Pod) -> Arc<Trace> {
        let name = || {
            let metadata = pod.config.metadata.as_ref();
            metadata.map_or_else(String::new, |metadata| {
                format!("{}/{}", metadata.namespace, metadata.name)
            })
        };
        self.traces.of_pod(pod.id.as_str(), name, &pod.runtime)
    }

    /// Tells subscribers what happened to a pod.
    pub fn tell_pod(&self, pod: &Pod, what: ContainerEventType) {
        self.tell(pod.id.as_str(), pod, what);
    }

    /// Tells subscribers what happened to a container.
    pub fn tell_container(&self, container: &Container, what: ContainerEventType) {
        self.tell(container.id.as_str(), &container.pod, what);
    }

    fn tell(&self, id: &str, pod: &Pod, what: ContainerEventType) {
        if !self.events.wanted() {
            return;
        }
        self.events.publish(&ContainerEventResponse {
            container_id: id.to_owned(),
            container_event_type: what.into(),
            created_at: clock::now(),
            pod_sandbox_status: Some(pod_status(pod)),
            containers_statuses: self.container_statuses(pod),
        });
    }

    /// The containers of a pod that clients may see, newest first: kubelets that listen to events
    /// take the first one of a name for its last attempt.
    pub fn container_statuses(&self, pod: &Pod) -> Vec<ContainerStatus> {
        let mut containers = self.containers_of(pod);
        containers.retain(|container| container.visible());
        containers.sort_by_key(|container| std::cmp::Reverse(container.created_at));
        let statuses = containers.iter().map(|one| container_status(one));
        statuses.collect()
    }
}

async fn open_images(config: &Config) -> Result<Images> {
    let opened = Images::open(config.images.clone()).await;
    opened.map_err(|source| {
        Error::Image {
            doing: "opening the image store".into(),
            source,
        }
        .into()
    })
}

async fn open_networks(config: &Config) -> Result<Networks> {
    let config = config.network.clone();
    blocking(move || {
        Networks::open(config).map_err(|source| {
            let doing = "opening the record of network attachments".into();
            Error::Network { doing, source }.into()
        })
    })
    .await
}

/// Without the default profile, pods that ask for it are refused, and the others run.
fn default_apparmor() -> Option<String> {
    if !AppArmor::is_enabled() {
        return None;
    }
    let loaded = AppArmor::load_default();
    loaded
        .inspect_err(|error| tracing::warn!(%error, "loading the default AppArmor profile"))
        .ok()
}

pub(crate) fn private_dir(state: &Path) -> PathBuf {
    state.join("private")
}

fn prepare_directories(root: &Path, state: &Path) -> Result<()> {
    for path in [root.join("pods"), state.join("pods"), state.join("netns")] {
        crate::pod::make_private_dir(&path)?;
    }
    for dir in [root, state] {
        orlop_disk::prepare_probe(dir)
            .map_err(Error::io(format!("writing to {}", dir.display())))?;
    }
    // Writable layers hold what containers' roots left there, programs with the setuid bit too:
    // nobody else on the node may get at them.
    let pods = root.join("pods");
    std::fs::set_permissions(&pods, Permissions::from_mode(0o700))
        .map_err(Error::io(format!("closing {} to others", pods.display())))?;
    orlop_launch::make_private_dir(&private_dir(state)).map_err(|source| {
        Error::Launch {
            doing: "preparing the state directory".into(),
            source,
        }
        .into()
    })
}
