//! A pod sandbox: what it was asked to be, and what it is now.
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
//! Each arrow is an event in the pod's journal. "Creating" and "Removing" are intents: the
//! next start of the daemon undoes the one and finishes the other.

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
    /// What the client asked for.
    pub config: PodSandboxConfig,
    /// The runtime handler that the client asked for; empty is the default one.
    pub handler: String,
    /// The runtime that this meant when the pod was made: another default later does not
    /// concern the containers that there are.
    pub runtime: String,
    /// Nanoseconds since 1970.
    pub created_at: i64,
    /// Its records and writable layers.
    pub dir: PathBuf,
    /// Its keeper's socket, its files and exit records; gone after a reboot.
    pub run: PathBuf,
    /// Held by whoever changes the pod: stop, remove, and the creation of containers.
    pub turn: tokio::sync::RwLock<()>,
    /// How many calls wait to stop it. While there is one, the creation of its containers gives up.
    stopping: AtomicUsize,
    /// Reads what it uses.
    pub meter: Mutex<Meter>,
    state: Recorded<Now>,
}

/// What is true of a pod at the moment.
#[derive(Debug, Clone, Default)]
pub struct Now {
    /// Where it is in its life.
    pub phase: Phase,
    /// Its network, once attached and until detached.
    pub network: Option<PodNetwork>,
    /// The network attachment that was begun and has not been undone.
    pub attachment: Option<Attachment>,
    /// The process that holds its namespaces.
    pub keeper: Option<Keeper>,
    /// Its SELinux level, where the node has SELinux.
    pub selinux_level: Option<String>,
    /// What its containers may use together, once that was changed.
    pub resources: Option<LinuxContainerResources>,
    /// What the pod itself uses on top of that, once that was changed.
    pub overhead: Option<LinuxContainerResources>,
    /// What its containers share beside its namespaces. Not a matter of record: its keeper knows.
    pub shared: Shared,
    /// What plugins were told of it by this run of the daemon.
    told: Told,
}

/// How it is with what the containers of some pods share: a virtual machine, for example.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Shared {
    /// There is none, or it is being ended.
    #[default]
    None,
    /// It is there.
    Runs,
    /// It is down, as who made it says; its process will end.
    Down,
    /// It has ended by itself.
    Ended,
}

/// What plugins were told of a pod.
#[derive(Debug, Clone, Copy, Default)]
pub struct Told {
    /// That it runs.
    pub running: bool,
    /// That it is stopped.
    pub stopped: bool,
}

/// Where a pod is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Phase {
    /// Being made; no client sees it.
    #[default]
    Creating,
    /// Its namespaces and network are there.
    Ready,
    /// Stopped, or its keeper is lost.
    NotReady,
    /// Being removed.
    Removing,
}

/// A line of a pod's journal.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The intent to make it.
    Created {
        /// What the client asked for.
        #[serde(with = "crate::record::message_in_json")]
        config: Box<PodSandboxConfig>,
        /// The runtime handler.
        handler: String,
        /// The name of the runtime that this meant.
        #[serde(default)]
        runtime: String,
        /// Nanoseconds since 1970.
        at: i64,
    },
    /// It was allotted an SELinux level.
    Labelled {
        /// As `s0:c12,c34`.
        level: String,
    },
    /// The intent to attach a network.
    Attaching {
        /// In this way.
        attachment: Box<Attachment>,
    },
    /// The network is attached.
    Attached {
        /// With this result.
        network: Box<PodNetwork>,
    },
    /// The network is detached.
    Detached,
    /// Everything is in place.
    Ready,
    /// Its resources were changed.
    Updated {
        /// What its containers may use together.
        #[serde(with = "crate::record::message_in_json")]
        resources: Box<LinuxContainerResources>,
        /// What comes on top of that.
        #[serde(with = "crate::record::message_in_json")]
        overhead: Box<LinuxContainerResources>,
    },
    /// It was stopped, or found without a keeper.
    NotReady,
    /// The intent to remove it.
    Removing,
}

impl Pod {
    /// Writes the intent down and makes the pod's directories.
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

    /// Reads a pod back from its directory; `None` if its record says nothing.
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

    /// Whether a call wants to stop it.
    pub fn is_to_stop(&self) -> bool {
        self.stopping.load(Ordering::Relaxed) > 0
    }

    /// Writes an event down, then lets it be true.
    pub async fn record(&self, event: Event) -> Result<()> {
        self.state.record(event).await
    }

    /// The same by a caller who may wait for the disk.
    pub fn record_here(&self, event: Event) -> Result<()> {
        self.state.record_here(event)
    }

    /// Lets an event be true even if it can't be written down, for steps that free what a full
    /// disk lacks and that may be repeated.
    pub async fn record_if_possible(&self, event: Event) {
        self.state.record_if_possible(event).await;
    }

    /// Sets or clears the keeper, which is not a matter of record: it is found by its socket.
    pub fn set_keeper(&self, keeper: Option<Keeper>) {
        self.state.change(|now| now.keeper = keeper);
    }

    /// Sets the keeper anew unless it was cleared meanwhile, which is said.
    pub fn replace_keeper(&self, keeper: Keeper) -> bool {
        self.state.change(|now| match &mut now.keeper {
            Some(former) => {
                *former = keeper;
                true
            }
            None => false,
        })
    }

    /// Notes how it is with what its containers share.
    pub fn set_shared(&self, shared: Shared) {
        self.state.change(|now| now.shared = shared);
    }

    /// Notes that it is down, unless it is to end: whoever asks from now on is told so, and nobody hears that the
    /// pod is ready again when who made it does not answer any more.
    pub fn shared_down(&self) {
        self.state.change(|now| {
            if now.shared == Shared::Runs {
                now.shared = Shared::Down;
            }
        });
    }

    /// Whether that is no more which its containers share.
    pub fn is_down(&self) -> bool {
        let down = |now: &Now| matches!(now.shared, Shared::Down | Shared::Ended);
        self.state.look(down)
    }

    /// Notes that it has ended, unless it was to: which is said.
    pub fn shared_ended(&self) -> bool {
        self.state.change(|now| {
            let by_itself = matches!(now.shared, Shared::Runs | Shared::Down);
            if by_itself {
                now.shared = Shared::Ended;
            }
            by_itself
        })
    }

    /// Notes what plugins are told. Not a matter of record: later plugins know nothing of it.
    pub fn tell<T>(&self, note: impl FnOnce(&mut Told) -> T) -> T {
        self.state.change(|now| note(&mut now.told))
    }

    /// What is true at the moment.
    pub fn now(&self) -> Now {
        self.state.look(Now::clone)
    }

    /// Where it is in its life.
    pub fn phase(&self) -> Phase {
        self.state.look(|now| now.phase)
    }

    /// The keeper of a pod that is ready.
    pub fn keeper(&self) -> Result<Keeper> {
        self.state.look(|now| now.keeper.clone()).ok_or_else(|| {
            Error::Precondition(format!("pod sandbox {} is not running", self.id)).into()
        })
    }

    /// The process that holds its namespaces, while the pod is ready.
    pub fn keeper_pid(&self) -> Option<u32> {
        self.state.look(|now| now.keeper.as_ref().map(Keeper::pid))
    }

    /// Whether clients may see it. One whose removal failed half-way still is, so that they
    /// can ask for it again.
    pub fn visible(&self) -> bool {
        self.phase() != Phase::Creating
    }

    /// Its name as given by the client.
    pub fn metadata(&self) -> PodSandboxMetadata {
        self.config.metadata.clone().unwrap_or_default()
    }

    /// A path to its user namespace. The keeper's own path to it, `/proc/<pid>/fd/<n>`, would
    /// make runc read the keeper's id mappings instead of the namespace's.
    pub fn user_ns(&self) -> PathBuf {
        self.run.join("userns")
    }

    /// The Linux part of its configuration.
    pub fn linux(&self) -> &LinuxPodSandboxConfig {
        static NONE: LazyLock<LinuxPodSandboxConfig> = LazyLock::new(Default::default);
        self.config.linux.as_ref().unwrap_or(&NONE)
    }

    /// Its security context.
    pub fn security(&self) -> &LinuxSandboxSecurityContext {
        static NONE: LazyLock<LinuxSandboxSecurityContext> = LazyLock::new(Default::default);
        self.linux().security_context.as_ref().unwrap_or(&NONE)
    }

    /// The Kubernetes namespace that it belongs to.
    pub fn namespace(&self) -> &str {
        let metadata = self.config.metadata.as_ref();
        metadata.map_or("", |metadata| &metadata.namespace)
    }

    /// Which namespaces it has of its own.
    pub fn namespaces(&self) -> &NamespaceOption {
        static NONE: LazyLock<NamespaceOption> = LazyLock::new(Default::default);
        self.security().namespace_options.as_ref().unwrap_or(&NONE)
    }

    /// Whether it shares the host's network.
    pub fn host_network(&self) -> bool {
        self.namespaces().network() == NamespaceMode::Node
    }

    /// Its addresses, the primary one first. None on the host's network.
    pub fn ips(&self) -> Vec<String> {
        self.state.look(|now| {
            let ips = now.network.iter().flat_map(|network| &network.ips);
            ips.map(ToString::to_string).collect()
        })
    }

    /// What its containers may use together, as far as that was said.
    pub fn resources(&self) -> Option<LinuxContainerResources> {
        let updated = self.state.look(|now| now.resources.clone());
        updated.or_else(|| self.linux().resources.clone())
    }

    /// What the pod itself uses on top of that, as far as that was said.
    pub fn overhead(&self) -> Option<LinuxContainerResources> {
        let updated = self.state.look(|now| now.overhead.clone());
        updated.or_else(|| self.linux().overhead.clone())
    }

    /// Where its containers' records are.
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
