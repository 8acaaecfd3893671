//! A container: its configuration and its current state.
//!
//! ```text
//!   (nothing) ──► Creating ──► Created ──► Running ──► Exited ──► Removing ──► (nothing)
//!                                 │                      ▲
//!                                 └── could not start ───┘
//! ```
//!
//! Each arrow is an event in the container's journal. "Creating" and "Removing" are intents: the next start
//! of the daemon undoes the former and completes the latter.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, OnceLock};

use orlop_cri_api::v1::{
    ContainerConfig, ContainerMetadata, ContainerResources, ContainerState, ContainerUser,
    LinuxContainerResources, LinuxContainerSecurityContext, Mount, NamespaceOption,
};
use orlop_cri_server::usage::Meter;
use orlop_oci_types as oci;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::error::{Error, Result};
use crate::record::directories::recorded_in;
use crate::record::ids::ContainerId;
use crate::record::names::ContainerName;
use crate::record::pod::Pod;
use crate::record::recorded::{Recorded, State};
use crate::record::spec_file;
use crate::record::store::Item;

/// A container.
#[derive(Debug)]
pub struct Container {
    /// Its identifier.
    pub id: ContainerId,
    /// The pod it belongs to.
    pub pod: Arc<Pod>,
    /// The configuration that the client requested.
    pub config: ContainerConfig,
    /// The image it was made from.
    pub image: ImageFacts,
    /// The checkpoint that it is restored from, if any.
    pub goes_on: Option<GoesOn>,
    /// Creation time, in nanoseconds since 1970.
    pub created_at: i64,
    /// Directory of its record and writable layer.
    pub dir: PathBuf,
    /// Directory of its OCI bundle; lost at a reboot.
    pub bundle: PathBuf,
    /// Lock held while the container is started, updated or removed.
    pub turn: tokio::sync::Mutex<()>,
    /// Events that plugins were notified of. Locked while plugins are notified of its start; taken before
    /// `turn`.
    pub told: tokio::sync::Mutex<Told>,
    /// Lock held while the container is checkpointed.
    pub dumps: tokio::sync::Mutex<()>,
    /// Reads its resource usage.
    pub meter: Mutex<Meter>,
    state: Recorded<Now>,
    ended: watch::Sender<bool>,
    pending_mounts: Mutex<Option<Vec<PendingMount>>>,
    process: OnceLock<oci::Process>,
    needs_runtime: OnceLock<bool>,
}

/// A detached mount, and the path where the pod's keeper attaches it.
#[derive(Debug)]
pub struct PendingMount {
    /// The mount's file descriptor.
    pub mount: OwnedFd,
    /// The mount point.
    pub path: PathBuf,
}

/// Events of a container that plugins were notified of.
#[derive(Debug, Default)]
pub struct Told {
    /// Whether plugins were notified of its end.
    pub stopped: bool,
}

/// Data that a restored container keeps about its checkpoint.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct GoesOn {
    /// Whether open TCP connections were kept.
    #[serde(default)]
    pub tcp_established: bool,
}

/// Data that a container keeps about its image.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ImageFacts {
    /// The digest of the image's configuration.
    pub id: String,
    /// The image's name in a registry, by digest if it has one.
    pub reference: String,
    /// The image's name for people: its first tag, or the name in the request.
    pub name: String,
}

/// The current state of a container.
#[derive(Debug, Clone, Default)]
pub struct Now {
    /// The phase of its life cycle.
    pub phase: Phase,
    /// Start time, in nanoseconds since 1970; zero before.
    pub started_at: i64,
    /// The result of its first process, once it has exited.
    pub exit: Option<Exit>,
    /// The settings in effect that the request left unspecified.
    pub effective: Effective,
    /// Its first process.
    pub pid: Option<u32>,
    /// Whether a stop signal was sent: the next stop only waits and kills.
    pub stop_sent: bool,
    /// Whether the runtime may know it, or mounts of it may exist.
    pub dirty: bool,
}

/// The phase of a container's life cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Phase {
    /// Being created; not visible to clients.
    #[default]
    Creating,
    /// Created, but never started.
    Created,
    /// The container's first process runs.
    Running,
    /// The container's first process has exited, or could not be started.
    Exited,
    /// Being removed.
    Removing,
}

/// The result of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// Exit time, in nanoseconds since 1970.
    pub at: i64,
    /// The exit code, or 128 plus the signal.
    pub code: i32,
    /// Machine-readable reason, one word: `Completed`, `Error`, `OOMKilled` …
    pub reason: String,
    /// Human-readable message; may be empty.
    pub message: String,
}

/// The settings in effect that the request left unspecified.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Effective {
    /// Its user and groups.
    #[serde(with = "crate::record::message_in_json")]
    pub user: ContainerUser,
    /// Its mounts.
    #[serde(with = "mounts")]
    pub mounts: Vec<Mount>,
    /// Its resource limits; changed by updates.
    #[serde(with = "crate::record::message_in_json")]
    pub resources: ContainerResources,
    /// The stop signal, as a CRI number.
    pub stop_signal: i32,
    /// Its cgroup as its specification names it, if a plugin chose one outside the pod's cgroup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroups_path: Option<String>,
}

/// An event in a container's journal.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The intent to create it.
    Created {
        /// The configuration that the client requested.
        #[serde(with = "crate::record::message_in_json")]
        config: Box<ContainerConfig>,
        /// The image it is made from.
        image: ImageFacts,
        /// The checkpoint that it is restored from, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        goes_on: Option<GoesOn>,
        /// Creation time, in nanoseconds since 1970.
        at: i64,
    },
    /// The container is created.
    Ready {
        /// Settings in force.
        effective: Effective,
    },
    /// The intent to start it.
    Starting,
    /// The container's first process runs.
    Started {
        /// Start time, in nanoseconds since 1970.
        at: i64,
        /// The process id.
        pid: u32,
    },
    /// The container's resources were changed.
    Updated {
        /// The limits in force.
        #[serde(with = "crate::record::message_in_json")]
        resources: ContainerResources,
    },
    /// The container's first process has exited.
    Exited {
        /// The result.
        exit: Exit,
    },
    /// The intent to remove it.
    Removing,
}

/// The immutable data of a container.
struct What {
    config: ContainerConfig,
    image: ImageFacts,
    goes_on: Option<GoesOn>,
    at: i64,
}

impl Container {
    /// Records the intent and makes the container's directories.
    pub fn create(
        id: ContainerId,
        pod: &Arc<Pod>,
        config: ContainerConfig,
        image: ImageFacts,
        goes_on: Option<GoesOn>,
        at: i64,
    ) -> Result<Self> {
        let dir = pod.containers_dir().join(id.as_str());
        let bundle = pod.run.join(id.as_str());
        let created = Event::Created {
            config: Box::new(config.clone()),
            image: image.clone(),
            goes_on,
            at,
        };
        let state = recorded_in(&[&dir, &bundle], || {
            Recorded::create(format!("container {id}"), &dir.join("journal"), &created)
        })?;
        let what = What {
            config,
            image,
            goes_on,
            at,
        };
        Ok(Self::new(id, Arc::clone(pod), what, state))
    }

    /// Restores a container from its directory; `None` if its record is empty.
    pub fn restore(id: ContainerId, pod: &Arc<Pod>) -> Result<Option<Self>> {
        let path = pod.containers_dir().join(id.as_str()).join("journal");
        let found = Recorded::open(format!("container {id}"), &path)?;
        let Some((created, state)) = found else {
            return Ok(None);
        };
        let Event::Created {
            config,
            image,
            goes_on,
            at,
        } = created
        else {
            return Ok(None);
        };
        let what = What {
            config: *config,
            image,
            goes_on,
            at,
        };
        Ok(Some(Self::new(id, Arc::clone(pod), what, state)))
    }

    fn new(id: ContainerId, pod: Arc<Pod>, what: What, state: Recorded<Now>) -> Self {
        let What {
            config,
            image,
            goes_on,
            at: created_at,
        } = what;
        let dir = pod.containers_dir().join(id.as_str());
        let bundle = pod.run.join(id.as_str());
        let has_ended = state.look(|now| now.exit.is_some());
        let (ended, _) = watch::channel(has_ended);
        Self {
            id,
            pod,
            config,
            image,
            goes_on,
            created_at,
            dir,
            bundle,
            turn: tokio::sync::Mutex::default(),
            // Plugins are not notified of an exit in an earlier run.
            told: tokio::sync::Mutex::new(Told { stopped: has_ended }),
            dumps: tokio::sync::Mutex::default(),
            meter: Mutex::default(),
            state,
            ended,
            pending_mounts: Mutex::default(),
            process: OnceLock::new(),
            needs_runtime: OnceLock::new(),
        }
    }

    /// Writes an event to the journal, then applies it.
    pub async fn record(&self, event: Event) -> Result<()> {
        self.state.record(event).await
    }

    /// Applies an event even if it cannot be written, for steps that free space on a full disk, or that have
    /// already happened.
    pub async fn record_if_possible(&self, event: Event) {
        self.state.record_if_possible(event).await;
    }

    /// Records the exit of the container; the first caller wins. A full disk must not keep a dead container
    /// running in the state: the keeper's exit record has it too.
    pub async fn exited(&self, exit: Exit) -> bool {
        let event = Event::Exited { exit };
        let first = self
            .state
            .record_unless(|now| now.exit.is_some(), event)
            .await;
        if first {
            self.ended.send_replace(true);
            // The container's cgroup will be removed.
            self.meter.lock().close();
        }
        first
    }

    /// Returns true for the first caller only, so that the stop signal is sent once.
    pub fn claim_stop_signal(&self) -> bool {
        self.state
            .change(|now| !std::mem::replace(&mut now.stop_sent, true))
    }

    /// Whether the runtime and the keeper have nothing to clean up.
    pub fn is_clean(&self) -> bool {
        self.state.look(|now| !now.dirty)
    }

    /// Notes that the runtime and the keeper have cleaned up. Not recorded: repeating it after a restart does
    /// no harm.
    pub fn set_clean(&self) {
        self.state.change(|now| now.dirty = false);
    }

    /// Keeps mounts until the container is started.
    pub fn set_pending_mounts(&self, mounts: Vec<PendingMount>) {
        *self.pending_mounts.lock() = Some(mounts);
    }

    /// Takes the mounts kept for the start; `None` if the daemon was restarted since.
    pub fn take_pending_mounts(&self) -> Option<Vec<PendingMount>> {
        self.pending_mounts.lock().take()
    }

    /// Returns its first process as the runtime got it; the template of commands run in the container.
    pub fn process(&self) -> Result<oci::Process> {
        if let Some(process) = self.process.get() {
            return Ok(process.clone());
        }
        /// The other fields are ignored.
        #[derive(serde::Deserialize)]
        struct Spec {
            process: Option<oci::Process>,
        }
        let spec: Spec = spec_file::read_as(&self.bundle)?;
        let process = spec.process.ok_or_else(|| {
            Error::Internal(format!(
                "the bundle of container {} has no process",
                self.id
            ))
        })?;
        Ok(self.process.get_or_init(|| process).clone())
    }

    /// Whether its start and deletion need the runtime, rather than only the keeper and the daemon. Blocks if
    /// the daemon was restarted since its creation.
    pub fn needs_runtime(&self) -> bool {
        *self.needs_runtime.get_or_init(|| {
            let spec = spec_file::read(&self.bundle);
            spec.map_or(true, |spec| spec.needs_runtime_after_creation())
        })
    }

    /// Notes whether its specification needs the runtime after creation.
    pub fn specified(&self, spec: &oci::Spec) {
        let needs = spec.needs_runtime_after_creation();
        let _ = self.needs_runtime.set(needs);
    }

    /// Returns the current state.
    pub fn now(&self) -> Now {
        self.state.look(Now::clone)
    }

    /// Returns the process id of its first process, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.state.look(|now| now.pid)
    }

    /// Returns the start time in nanoseconds since 1970; zero before.
    pub fn started_at(&self) -> i64 {
        self.state.look(|now| now.started_at)
    }

    /// Returns its resource limits, as far as they were requested.
    pub fn linux_resources(&self) -> LinuxContainerResources {
        let linux = self.state.look(|now| now.effective.resources.linux.clone());
        linux.unwrap_or_default()
    }

    /// Returns its cgroup as its specification names it, if that is not below its pod's.
    pub fn cgroups_path(&self) -> Option<String> {
        self.state.look(|now| now.effective.cgroups_path.clone())
    }

    /// Returns its phase.
    pub fn phase(&self) -> Phase {
        self.state.look(|now| now.phase)
    }

    /// Returns its CRI state.
    pub fn state(&self) -> ContainerState {
        match self.phase() {
            Phase::Creating | Phase::Created => ContainerState::ContainerCreated,
            Phase::Running => ContainerState::ContainerRunning,
            Phase::Exited | Phase::Removing => ContainerState::ContainerExited,
        }
    }

    /// Whether clients may see it. A container whose removal failed half-way is visible, so that clients can
    /// retry.
    pub fn visible(&self) -> bool {
        self.phase() != Phase::Creating
    }

    /// Waits until its first process has exited.
    pub async fn wait(&self) {
        // The sender lives as long as `self`, so this can't fail.
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }

    /// Returns its metadata as given by the client.
    pub fn metadata(&self) -> ContainerMetadata {
        self.config.metadata.clone().unwrap_or_default()
    }

    /// Returns its security context.
    pub fn security(&self) -> &LinuxContainerSecurityContext {
        static NONE: LazyLock<LinuxContainerSecurityContext> = LazyLock::new(Default::default);
        let linux = self.config.linux.as_ref();
        let security = linux.and_then(|linux| linux.security_context.as_ref());
        security.unwrap_or(&NONE)
    }

    /// Returns the container's namespace options, if its request has any.
    pub fn namespaces(&self) -> Option<&NamespaceOption> {
        self.security().namespace_options.as_ref()
    }

    /// Returns the path of its log file, if it has one.
    pub fn log_path(&self) -> Option<PathBuf> {
        let directory = &self.pod.config.log_directory;
        (!directory.is_empty() && !self.config.log_path.is_empty())
            .then(|| PathBuf::from(directory).join(&self.config.log_path))
    }

    /// Returns the upper directory of its root file system.
    pub fn upper(&self) -> PathBuf {
        self.dir.join("upper")
    }

    /// Returns the work directory of its root file system.
    pub fn work(&self) -> PathBuf {
        self.dir.join("work")
    }

    /// Returns the directory of the volumes that its image declares.
    pub fn volumes(&self) -> PathBuf {
        self.dir.join("volumes")
    }
}

impl Item for Container {
    type Name = ContainerName;

    fn id(&self) -> &str {
        self.id.as_str()
    }

    fn name(&self) -> Option<ContainerName> {
        ContainerName::of(&self.pod.id, &self.config).ok()
    }

    fn owner(&self) -> Option<&str> {
        Some(self.pod.id.as_str())
    }
}

impl State for Now {
    type Event = Event;

    fn apply(&mut self, event: Event) {
        match event {
            Event::Created { .. } => {}
            Event::Starting => self.dirty = true,
            Event::Ready { effective } => {
                self.phase = Phase::Created;
                self.effective = effective;
            }
            Event::Started { at, pid } => {
                self.started_at = at;
                // A short-lived process can exit before its start is recorded.
                if self.exit.is_none() {
                    self.phase = Phase::Running;
                    self.pid = Some(pid);
                }
            }
            Event::Updated { resources } => self.effective.resources = resources,
            Event::Exited { exit } => {
                self.phase = Phase::Exited;
                self.exit = Some(exit);
                self.pid = None;
            }
            Event::Removing => self.phase = Phase::Removing,
        }
    }

    fn rests(&self) -> bool {
        matches!(self.phase, Phase::Exited | Phase::Removing)
    }
}

mod mounts {
    //! Serializes a list of mounts as a container configuration with no other field.

    use orlop_cri_api::v1::{ContainerConfig, Mount};
    use serde::{Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(mounts: &[Mount], to: S) -> Result<S::Ok, S::Error> {
        let carrier = ContainerConfig {
            mounts: mounts.to_vec(),
            ..Default::default()
        };
        crate::record::message_in_json::serialize(&carrier, to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Mount>, D::Error> {
        crate::record::message_in_json::deserialize::<ContainerConfig, D>(from)
            .map(|carrier| carrier.mounts)
    }
}
