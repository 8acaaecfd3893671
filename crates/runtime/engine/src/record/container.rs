//! A container: what it was asked to be, and what it is now.
//!
//! ```text
//!   (nothing) ──► Creating ──► Created ──► Running ──► Exited ──► Removing ──► (nothing)
//!                                 │                      ▲
//!                                 └── could not start ───┘
//! ```
//!
//! Each arrow is an event in the container's journal. "Creating" and "Removing" are intents:
//! the next start of the daemon undoes the one and finishes the other.

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
    /// What the client asked for.
    pub config: ContainerConfig,
    /// The image it was made from.
    pub image: ImageFacts,
    /// The checkpoint that it goes on from.
    pub goes_on: Option<GoesOn>,
    /// Nanoseconds since 1970.
    pub created_at: i64,
    /// Its record and writable layer.
    pub dir: PathBuf,
    /// Its OCI bundle; gone after a reboot.
    pub bundle: PathBuf,
    /// Held by whoever starts, updates or removes it.
    pub turn: tokio::sync::Mutex<()>,
    /// What plugins were told of it; held from before its start is told until after. Taken
    /// before its turn.
    pub told: tokio::sync::Mutex<Told>,
    /// Held by whoever writes it out.
    pub dumps: tokio::sync::Mutex<()>,
    /// Reads what it uses.
    pub meter: Mutex<Meter>,
    state: Recorded<Now>,
    ended: watch::Sender<bool>,
    pending_mounts: Mutex<Option<Vec<PendingMount>>>,
    process: OnceLock<oci::Process>,
    needs_runtime: OnceLock<bool>,
}

/// A mount that is not yet anywhere, and where the pod's keeper is to put it.
#[derive(Debug)]
pub struct PendingMount {
    /// The mount.
    pub mount: OwnedFd,
    /// Where it is to be.
    pub path: PathBuf,
}

/// What plugins were told of a container.
#[derive(Debug, Default)]
pub struct Told {
    /// That it has ended.
    pub stopped: bool,
}

/// What a container that goes on from a checkpoint remembers of that.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct GoesOn {
    /// Whether open TCP connections were kept.
    #[serde(default)]
    pub tcp_established: bool,
}

/// What a container remembers of its image.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ImageFacts {
    /// The digest of the image's configuration.
    pub id: String,
    /// How the image is called in a registry, by digest if it has one.
    pub reference: String,
    /// How people call the image: its first tag, or what the request said.
    pub name: String,
}

/// What is true of a container at the moment.
#[derive(Debug, Clone, Default)]
pub struct Now {
    /// Where it is in its life.
    pub phase: Phase,
    /// Nanoseconds since 1970; zero before.
    pub started_at: i64,
    /// How it ended, once it has.
    pub exit: Option<Exit>,
    /// What it really got.
    pub effective: Effective,
    /// Its first process.
    pub pid: Option<u32>,
    /// A stop signal was sent: the next stop only waits and kills.
    pub stop_sent: bool,
    /// The runtime may know it, and mounts of it may be in place.
    pub dirty: bool,
}

/// Where a container is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Phase {
    /// Being made; no client sees it.
    #[default]
    Creating,
    /// Complete, never started.
    Created,
    /// Its first process runs.
    Running,
    /// Its first process has ended, or never came to life.
    Exited,
    /// Being removed.
    Removing,
}

/// How a container ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// Nanoseconds since 1970.
    pub at: i64,
    /// The exit code, or 128 plus the signal.
    pub code: i32,
    /// One word for programs: `Completed`, `Error`, `OOMKilled` …
    pub reason: String,
    /// A sentence for people; may be empty.
    pub message: String,
}

/// What a container really got, where the request left it open.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Effective {
    /// Its user and groups.
    #[serde(with = "crate::record::message_in_json")]
    pub user: ContainerUser,
    /// Its mounts.
    #[serde(with = "mounts")]
    pub mounts: Vec<Mount>,
    /// Its resources; changed by updates.
    #[serde(with = "crate::record::message_in_json")]
    pub resources: ContainerResources,
    /// The signal that asks it to end, as a number of CRI's.
    pub stop_signal: i32,
    /// Its cgroup as its specification names it, where a plugin chose another than its pod's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroups_path: Option<String>,
}

/// A line of a container's journal.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The intent to make it.
    Created {
        /// What the client asked for.
        #[serde(with = "crate::record::message_in_json")]
        config: Box<ContainerConfig>,
        /// The image it is made from.
        image: ImageFacts,
        /// The checkpoint that it goes on from.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        goes_on: Option<GoesOn>,
        /// Nanoseconds since 1970.
        at: i64,
    },
    /// Everything is in place.
    Ready {
        /// What it really got.
        effective: Effective,
    },
    /// The intent to start it.
    Starting,
    /// Its first process runs.
    Started {
        /// Nanoseconds since 1970.
        at: i64,
        /// The process.
        pid: u32,
    },
    /// Its resources were changed.
    Updated {
        /// What holds now.
        #[serde(with = "crate::record::message_in_json")]
        resources: ContainerResources,
    },
    /// It has ended.
    Exited {
        /// How.
        exit: Exit,
    },
    /// The intent to remove it.
    Removing,
}

/// What a container is from its first moment on.
struct What {
    config: ContainerConfig,
    image: ImageFacts,
    goes_on: Option<GoesOn>,
    at: i64,
}

impl Container {
    /// Writes the intent down and makes the container's directories.
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

    /// Reads a container back from its directory; `None` if its record says nothing.
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
            // The end of one that ended in an earlier run is old news.
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

    /// Writes an event down, then lets it be true.
    pub async fn record(&self, event: Event) -> Result<()> {
        self.state.record(event).await
    }

    /// Lets an event be true even if it can't be written down, for steps that free what a full
    /// disk lacks, or that have happened already.
    pub async fn record_if_possible(&self, event: Event) {
        self.state.record_if_possible(event).await;
    }

    /// Notes the end of the container; the first to do so wins. A full disk must not keep a
    /// dead container running in our books: the keeper's exit record has it too.
    pub async fn exited(&self, exit: Exit) -> bool {
        let event = Event::Exited { exit };
        let first = self
            .state
            .record_unless(|now| now.exit.is_some(), event)
            .await;
        if first {
            self.ended.send_replace(true);
            // Its cgroup goes away.
            self.meter.lock().close();
        }
        first
    }

    /// True for the first caller: the stop signal is sent once.
    pub fn claim_stop_signal(&self) -> bool {
        self.state
            .change(|now| !std::mem::replace(&mut now.stop_sent, true))
    }

    /// Whether there is nothing for the runtime and the keeper to clean up.
    pub fn is_clean(&self) -> bool {
        self.state.look(|now| !now.dirty)
    }

    /// The runtime and the keeper have cleaned up. Not a matter of record: to do it again
    /// after a restart does no harm.
    pub fn set_clean(&self) {
        self.state.change(|now| now.dirty = false);
    }

    /// Keeps mounts until the container is started.
    pub fn set_pending_mounts(&self, mounts: Vec<PendingMount>) {
        *self.pending_mounts.lock() = Some(mounts);
    }

    /// The mounts kept for the start; none if the daemon was restarted since.
    pub fn take_pending_mounts(&self) -> Option<Vec<PendingMount>> {
        self.pending_mounts.lock().take()
    }

    /// Its first process as its runtime was told; the pattern for commands run in it.
    pub fn process(&self) -> Result<oci::Process> {
        if let Some(process) = self.process.get() {
            return Ok(process.clone());
        }
        /// All else is passed over.
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

    /// Whether its runtime has more to do at its start and its deletion than the keeper and we
    /// can. Blocks when the daemon was restarted since its creation.
    pub fn needs_runtime(&self) -> bool {
        *self.needs_runtime.get_or_init(|| {
            let spec = spec_file::read(&self.bundle);
            spec.map_or(true, |spec| spec.needs_runtime_after_creation())
        })
    }

    /// Takes note of its specification.
    pub fn specified(&self, spec: &oci::Spec) {
        let needs = spec.needs_runtime_after_creation();
        let _ = self.needs_runtime.set(needs);
    }

    /// What is true at the moment.
    pub fn now(&self) -> Now {
        self.state.look(Now::clone)
    }

    /// Its first process, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.state.look(|now| now.pid)
    }

    /// Nanoseconds since 1970; zero before it was started.
    pub fn started_at(&self) -> i64 {
        self.state.look(|now| now.started_at)
    }

    /// What it may use, as far as the node was asked to limit that.
    pub fn linux_resources(&self) -> LinuxContainerResources {
        let linux = self.state.look(|now| now.effective.resources.linux.clone());
        linux.unwrap_or_default()
    }

    /// Its cgroup as its specification names it, if that is not below its pod's.
    pub fn cgroups_path(&self) -> Option<String> {
        self.state.look(|now| now.effective.cgroups_path.clone())
    }

    /// Where it is in its life.
    pub fn phase(&self) -> Phase {
        self.state.look(|now| now.phase)
    }

    /// Where it is in its life, in CRI's words.
    pub fn state(&self) -> ContainerState {
        match self.phase() {
            Phase::Creating | Phase::Created => ContainerState::ContainerCreated,
            Phase::Running => ContainerState::ContainerRunning,
            Phase::Exited | Phase::Removing => ContainerState::ContainerExited,
        }
    }

    /// Whether clients may see it. One whose removal failed half-way still is, so that they
    /// can ask for it again.
    pub fn visible(&self) -> bool {
        self.phase() != Phase::Creating
    }

    /// Waits until it has ended.
    pub async fn wait(&self) {
        // The sender lives as long as `self`, so this can't fail.
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }

    /// Its name as given by the client.
    pub fn metadata(&self) -> ContainerMetadata {
        self.config.metadata.clone().unwrap_or_default()
    }

    /// Its security context.
    pub fn security(&self) -> &LinuxContainerSecurityContext {
        static NONE: LazyLock<LinuxContainerSecurityContext> = LazyLock::new(Default::default);
        let linux = self.config.linux.as_ref();
        let security = linux.and_then(|linux| linux.security_context.as_ref());
        security.unwrap_or(&NONE)
    }

    /// Which namespaces it has of its own, as far as the request says so.
    pub fn namespaces(&self) -> Option<&NamespaceOption> {
        self.security().namespace_options.as_ref()
    }

    /// Its log file, if it has one.
    pub fn log_path(&self) -> Option<PathBuf> {
        let directory = &self.pod.config.log_directory;
        (!directory.is_empty() && !self.config.log_path.is_empty())
            .then(|| PathBuf::from(directory).join(&self.config.log_path))
    }

    /// The upper directory of its root file system.
    pub fn upper(&self) -> PathBuf {
        self.dir.join("upper")
    }

    /// The work directory of its root file system.
    pub fn work(&self) -> PathBuf {
        self.dir.join("work")
    }

    /// Contents of the volumes that its image declares.
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
                // A short-lived process can be gone before its start is written down.
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
    //! A list of mounts travels as a container configuration that has nothing else.

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
