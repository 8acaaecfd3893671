//! A pod sandbox: its configuration and its current state.
//!
//! ```text
//!              RunPodSandbox            StopPodSandbox,
//!                                       keeper lost, reboot
//!   (nothing) ──► Creating ──► Ready ───────────────────► NotReady
//!                     │                                       │ RemovePodSandbox
//!                     └── failed: everything undone           ▼
//!                         (or NotReady, if undoing fails)   Removing ──► (nothing)
//! ```
//!
//! Each arrow is an event in the pod's journal. "Creating" and "Removing" are intents: the next start of
//! the daemon undoes the former and completes the latter.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use orlop_cri_api::v1::{
    LinuxContainerResources, LinuxPodSandboxConfig, LinuxSandboxSecurityContext, NamespaceMode,
    NamespaceOption, PodSandboxConfig, PodSandboxMetadata,
};
use orlop_cri_server::usage::Meter;
use orlop_launch::Keeper;
use orlop_network::{Attachment, PodNetwork};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::record::directories::recorded_in;
use crate::record::ids::PodId;
use crate::record::names::PodName;
use crate::record::recorded::{Recorded, State};
use crate::record::store::Item;

/// A pod sandbox.
#[derive(Debug)]
pub struct Pod {
    /// Its identifier.
    pub id: PodId,
    /// The configuration that the client requested.
    pub config: PodSandboxConfig,
    /// The runtime handler that the client requested; empty is the default one.
    pub handler: String,
    /// The runtime that the handler resolved to when the pod was made. A later change of the default does not
    /// affect existing containers.
    pub runtime: String,
    /// Creation time, in nanoseconds since 1970.
    pub created_at: i64,
    /// Directory of its records and writable layers.
    pub dir: PathBuf,
    /// Directory of its keeper's socket, its files and exit records; lost at a reboot.
    pub run: PathBuf,
    /// Lock held while the pod is changed: by stop, remove and container creation.
    pub turn: tokio::sync::RwLock<()>,
    /// Number of calls that wait to stop the pod. While there is one, the creation of its containers gives up.
    stopping: AtomicUsize,
    /// Reads its resource usage.
    pub meter: Mutex<Meter>,
    state: Recorded<Now>,
}

/// The current state of a pod.
#[derive(Debug, Clone, Default)]
pub struct Now {
    /// The phase of its life cycle.
    pub phase: Phase,
    /// Its network, from attachment to detachment.
    pub network: Option<PodNetwork>,
    /// The network attachment that was begun and not undone.
    pub attachment: Option<Attachment>,
    /// The process that holds its namespaces.
    pub keeper: Option<Keeper>,
    /// Its SELinux level, if the node has SELinux.
    pub selinux_level: Option<String>,
    /// The limits of its containers together, once an update changed them.
    pub resources: Option<LinuxContainerResources>,
    /// The overhead of the pod itself, once an update changed it.
    pub overhead: Option<LinuxContainerResources>,
    /// State of the sandbox that its containers share. Not recorded: its keeper knows it.
    pub shared: Shared,
    /// Events that this run of the daemon notified plugins of.
    told: Told,
}

/// State of the sandbox that the containers of some pods share, for example a virtual machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Shared {
    /// There is no sandbox, or it is being stopped.
    #[default]
    None,
    /// The sandbox runs.
    Runs,
    /// The sandboxer reports that the sandbox is down; the sandbox's process will exit.
    Down,
    /// The sandbox has ended by itself.
    Ended,
}

/// Events of a pod that plugins were notified of.
#[derive(Debug, Clone, Copy, Default)]
pub struct Told {
    /// Whether plugins were notified that it runs.
    pub running: bool,
    /// Whether plugins were notified that it is stopped.
    pub stopped: bool,
}

/// The phase of a pod's life cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Phase {
    /// Being created; not visible to clients.
    #[default]
    Creating,
    /// The pod's namespaces and network exist.
    Ready,
    /// Stopped, or its keeper is lost.
    NotReady,
    /// Being removed.
    Removing,
}

/// An event in a pod's journal.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The intent to create it.
    Created {
        /// The configuration that the client requested.
        #[serde(with = "crate::record::message_in_json")]
        config: Box<PodSandboxConfig>,
        /// The runtime handler.
        handler: String,
        /// The name of the runtime that the handler resolved to.
        #[serde(default)]
        runtime: String,
        /// Creation time, in nanoseconds since 1970.
        at: i64,
    },
    /// An SELinux level was allotted.
    Labelled {
        /// The level, such as `s0:c12,c34`.
        level: String,
    },
    /// The intent to attach a network.
    Attaching {
        /// The attachment.
        attachment: Box<Attachment>,
    },
    /// The network is attached.
    Attached {
        /// The result.
        network: Box<PodNetwork>,
    },
    /// The network is detached.
    Detached,
    /// The pod is ready.
    Ready,
    /// The pod's resources were changed.
    Updated {
        /// The limits of its containers together.
        #[serde(with = "crate::record::message_in_json")]
        resources: Box<LinuxContainerResources>,
        /// The overhead of the pod itself.
        #[serde(with = "crate::record::message_in_json")]
        overhead: Box<LinuxContainerResources>,
    },
    /// The pod was stopped, or its keeper was not found.
    NotReady,
    /// The intent to remove it.
    Removing,
}

impl Pod {
    /// Records the intent and makes the pod's directories.
    pub fn create(
        pods: &Path,
        runs: &Path,
        id: PodId,
        (config, handler, runtime): (PodSandboxConfig, String, String),
        at: i64,
    ) -> Result<Self> {
        let (dir, run) = (pods.join(id.as_str()), runs.join(id.as_str()));
        let created = Event::Created {
            config: Box::new(config.clone()),
            handler: handler.clone(),
            runtime: runtime.clone(),
            at,
        };
        let state = recorded_in(&[&dir, &run], || {
            Recorded::create(format!("pod {id}"), &dir.join("journal"), &created)
        })?;
        Ok(Self::new(
            id,
            config,
            (handler, runtime),
            at,
            (dir, run),
            state,
        ))
    }

    /// Restores a pod from its directory; `None` if its record is empty.
    pub fn restore(id: PodId, dir: PathBuf, run: PathBuf) -> Result<Option<Self>> {
        let found = Recorded::open(format!("pod {id}"), &dir.join("journal"))?;
        let Some((
            Event::Created {
                config,
                handler,
                runtime,
                at,
            },
            state,
        )) = found
        else {
            return Ok(None);
        };
        Ok(Some(Self::new(
            id,
            *config,
            (handler, runtime),
            at,
            (dir, run),
            state,
        )))
    }

    fn new(
        id: PodId,
        config: PodSandboxConfig,
        (handler, runtime): (String, String),
        created_at: i64,
        (dir, run): (PathBuf, PathBuf),
        state: Recorded<Now>,
    ) -> Self {
        Self {
            id,
            config,
            handler,
            runtime,
            created_at,
            dir,
            run,
            turn: tokio::sync::RwLock::default(),
            stopping: AtomicUsize::new(0),
            meter: Mutex::default(),
            state,
        }
    }

    /// Makes the creation of its containers give up until the returned guard is dropped.
    pub fn want_stop(&self) -> impl Drop + Send {
        struct Wanted<'a>(&'a AtomicUsize);
        impl Drop for Wanted<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Relaxed);
            }
        }
        self.stopping.fetch_add(1, Ordering::Relaxed);
        Wanted(&self.stopping)
    }

    /// Whether a call waits to stop it.
    pub fn is_to_stop(&self) -> bool {
        self.stopping.load(Ordering::Relaxed) > 0
    }

    /// Writes an event to the journal, then applies it.
    pub async fn record(&self, event: Event) -> Result<()> {
        self.state.record(event).await
    }

    /// Like [`record`](Self::record), for a caller that may block on the disk.
    pub fn record_here(&self, event: Event) -> Result<()> {
        self.state.record_here(event)
    }

    /// Applies an event even if it cannot be written, for steps that free space on a full disk and may be
    /// repeated.
    pub async fn record_if_possible(&self, event: Event) {
        self.state.record_if_possible(event).await;
    }

    /// Sets or clears the keeper. Not recorded: the keeper is found by its socket.
    pub fn set_keeper(&self, keeper: Option<Keeper>) {
        self.state.change(|now| now.keeper = keeper);
    }

    /// Replaces the keeper unless it was cleared meanwhile; returns whether it did.
    pub fn replace_keeper(&self, keeper: Keeper) -> bool {
        self.state.change(|now| match &mut now.keeper {
            Some(former) => {
                *former = keeper;
                true
            }
            None => false,
        })
    }

    /// Sets the state of the shared sandbox.
    pub fn set_shared(&self, shared: Shared) {
        self.state.change(|now| now.shared = shared);
    }

    /// Notes that the shared sandbox is down, unless it is being ended. From now on the pod is reported as not
    /// ready, even if the sandboxer does not respond any more.
    pub fn shared_down(&self) {
        self.state.change(|now| {
            if now.shared == Shared::Runs {
                now.shared = Shared::Down;
            }
        });
    }

    /// Whether the shared sandbox is down or has ended.
    pub fn is_down(&self) -> bool {
        let down = |now: &Now| matches!(now.shared, Shared::Down | Shared::Ended);
        self.state.look(down)
    }

    /// Notes that the shared sandbox has ended; returns whether it ended by itself.
    pub fn shared_ended(&self) -> bool {
        self.state.change(|now| {
            let by_itself = matches!(now.shared, Shared::Runs | Shared::Down);
            if by_itself {
                now.shared = Shared::Ended;
            }
            by_itself
        })
    }

    /// Notes what plugins are notified of. Not recorded: plugins that start later know nothing of it.
    pub fn tell<T>(&self, note: impl FnOnce(&mut Told) -> T) -> T {
        self.state.change(|now| note(&mut now.told))
    }

    /// Returns the current state.
    pub fn now(&self) -> Now {
        self.state.look(Now::clone)
    }

    /// Returns its phase.
    pub fn phase(&self) -> Phase {
        self.state.look(|now| now.phase)
    }

    /// Returns the keeper of a ready pod.
    pub fn keeper(&self) -> Result<Keeper> {
        self.state.look(|now| now.keeper.clone()).ok_or_else(|| {
            Error::Precondition(format!("pod sandbox {} is not running", self.id)).into()
        })
    }

    /// Returns the process that holds its namespaces, while the pod is ready.
    pub fn keeper_pid(&self) -> Option<u32> {
        self.state.look(|now| now.keeper.as_ref().map(Keeper::pid))
    }

    /// Whether clients may see it. A pod whose removal failed half-way is visible, so that clients can retry.
    pub fn visible(&self) -> bool {
        self.phase() != Phase::Creating
    }

    /// Returns its metadata as given by the client.
    pub fn metadata(&self) -> PodSandboxMetadata {
        self.config.metadata.clone().unwrap_or_default()
    }

    /// Returns a path to its user namespace. The keeper's own path, `/proc/<pid>/fd/<n>`, would make runc read
    /// the keeper's id mappings instead of the namespace's.
    pub fn user_ns(&self) -> PathBuf {
        self.run.join("userns")
    }

    /// Returns the Linux part of its configuration.
    pub fn linux(&self) -> &LinuxPodSandboxConfig {
        static NONE: LazyLock<LinuxPodSandboxConfig> = LazyLock::new(Default::default);
        self.config.linux.as_ref().unwrap_or(&NONE)
    }

    /// Returns its security context.
    pub fn security(&self) -> &LinuxSandboxSecurityContext {
        static NONE: LazyLock<LinuxSandboxSecurityContext> = LazyLock::new(Default::default);
        self.linux().security_context.as_ref().unwrap_or(&NONE)
    }

    /// Returns its Kubernetes namespace.
    pub fn namespace(&self) -> &str {
        let metadata = self.config.metadata.as_ref();
        metadata.map_or("", |metadata| &metadata.namespace)
    }

    /// Returns its namespace options.
    pub fn namespaces(&self) -> &NamespaceOption {
        static NONE: LazyLock<NamespaceOption> = LazyLock::new(Default::default);
        self.security().namespace_options.as_ref().unwrap_or(&NONE)
    }

    /// Whether it shares the host's network.
    pub fn host_network(&self) -> bool {
        self.namespaces().network() == NamespaceMode::Node
    }

    /// Returns its addresses, the primary one first. None on the host's network.
    pub fn ips(&self) -> Vec<String> {
        self.state.look(|now| {
            let ips = now.network.iter().flat_map(|network| &network.ips);
            ips.map(ToString::to_string).collect()
        })
    }

    /// Returns the limits of its containers together, if any were given.
    pub fn resources(&self) -> Option<LinuxContainerResources> {
        let updated = self.state.look(|now| now.resources.clone());
        updated.or_else(|| self.linux().resources.clone())
    }

    /// Returns the overhead of the pod itself, if any was given.
    pub fn overhead(&self) -> Option<LinuxContainerResources> {
        let updated = self.state.look(|now| now.overhead.clone());
        updated.or_else(|| self.linux().overhead.clone())
    }

    /// Returns the directory of its containers' records.
    pub fn containers_dir(&self) -> PathBuf {
        self.dir.join("containers")
    }
}

impl Item for Pod {
    type Name = PodName;

    fn id(&self) -> &str {
        self.id.as_str()
    }

    fn name(&self) -> Option<PodName> {
        PodName::of(&self.config).ok()
    }

    fn owner(&self) -> Option<&str> {
        None
    }
}

impl State for Now {
    type Event = Event;

    fn apply(&mut self, event: Event) {
        match event {
            Event::Created { .. } => {}
            Event::Labelled { level } => self.selinux_level = Some(level),
            Event::Attaching { attachment } => self.attachment = Some(*attachment),
            Event::Attached { network } => self.network = Some(*network),
            Event::Updated {
                resources,
                overhead,
            } => {
                self.resources = Some(*resources);
                self.overhead = Some(*overhead);
            }
            Event::Detached => {
                self.network = None;
                self.attachment = None;
            }
            Event::Ready => self.phase = Phase::Ready,
            Event::NotReady => self.phase = Phase::NotReady,
            Event::Removing => self.phase = Phase::Removing,
        }
    }

    fn rests(&self) -> bool {
        matches!(self.phase, Phase::NotReady | Phase::Removing)
    }
}
