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
use std::sync::{Mutex, PoisonError, RwLock};

use orlop_cri::v1::{
    LinuxPodSandboxConfig, LinuxSandboxSecurityContext, NamespaceMode, NamespaceOption,
    PodSandboxConfig, PodSandboxMetadata,
};
use orlop_launch::Keeper;
use orlop_network::{Attachment, PodNetwork};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::ids::PodId;
use crate::journal::Journal;
use crate::stats::Meter;

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
    /// Reads what it uses.
    pub meter: Mutex<Meter>,
    now: RwLock<Now>,
    journal: Mutex<Journal<Event>>,
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
        #[serde(with = "crate::encoded")]
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
        config: PodSandboxConfig,
        handler: String,
        runtime: String,
    ) -> Result<Self> {
        let id = PodId::random();
        let (dir, run) = (pods.join(id.as_str()), runs.join(id.as_str()));
        for path in [&dir, &run] {
            make_private_dir(path)?;
        }
        let at = crate::clock::now();
        let created = Event::Created {
            config: Box::new(config.clone()),
            handler: handler.clone(),
            runtime: runtime.clone(),
            at,
        };
        let journal = Journal::create(&dir.join("journal"), &created)
            .map_err(Error::io(format!("writing the record of pod {id}")))?;
        Ok(Self::new(
            id,
            config,
            (handler, runtime),
            at,
            dir,
            run,
            Now::default(),
            journal,
        ))
    }

    /// Reads a pod back from its directory; `None` if its record says nothing.
    pub fn restore(id: PodId, dir: PathBuf, run: PathBuf) -> Result<Option<Self>> {
        let (journal, events) = match Journal::open(&dir.join("journal")) {
            Ok(found) => found,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(Error::io(format!("reading the record of pod {id}"))(error).into());
            }
        };
        let mut events = events.into_iter();
        let Some(Event::Created {
            config,
            handler,
            runtime,
            at,
        }) = events.next()
        else {
            return Ok(None);
        };
        let mut now = Now::default();
        events.for_each(|event| now.apply(event));
        Ok(Some(Self::new(
            id,
            *config,
            (handler, runtime),
            at,
            dir,
            run,
            now,
            journal,
        )))
    }

    #[allow(
        clippy::too_many_arguments,
        reason = "the two constructors above are its only callers"
    )]
    fn new(
        id: PodId,
        config: PodSandboxConfig,
        (handler, runtime): (String, String),
        created_at: i64,
        dir: PathBuf,
        run: PathBuf,
        now: Now,
        journal: Journal<Event>,
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
            meter: Mutex::default(),
            now: RwLock::new(now),
            journal: Mutex::new(journal),
        }
    }

    /// Writes an event down, then lets it be true.
    pub fn record(&self, event: Event) -> Result<()> {
        let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        journal
            .append(&event)
            .map_err(Error::io(format!("writing the record of pod {}", self.id)))?;
        self.now
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .apply(event);
        Ok(())
    }

    /// Lets an event be true even if it can't be written down, for steps that free what a full
    /// disk lacks and that may be repeated.
    pub fn record_if_possible(&self, event: Event) {
        let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = journal.append(&event) {
            tracing::warn!(pod = %self.id, %error, "writing the pod's record; going on without");
        }
        self.now
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .apply(event);
    }

    /// Sets or clears the keeper, which is not a matter of record: it is found by its socket.
    pub fn set_keeper(&self, keeper: Option<Keeper>) {
        self.now
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .keeper = keeper;
    }

    /// What is true at the moment.
    pub fn now(&self) -> Now {
        self.now
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Where it is in its life.
    pub fn phase(&self) -> Phase {
        self.now
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .phase
    }

    /// The keeper of a pod that is ready.
    pub fn keeper(&self) -> Result<Keeper> {
        self.now().keeper.ok_or_else(|| {
            Error::Precondition(format!("pod sandbox {} is not running", self.id)).into()
        })
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
    pub fn linux(&self) -> LinuxPodSandboxConfig {
        self.config.linux.clone().unwrap_or_default()
    }

    /// Its security context.
    pub fn security(&self) -> LinuxSandboxSecurityContext {
        self.linux().security_context.unwrap_or_default()
    }

    /// Which namespaces it has of its own.
    pub fn namespaces(&self) -> NamespaceOption {
        self.security().namespace_options.unwrap_or_default()
    }

    /// Whether it shares the host's network.
    pub fn host_network(&self) -> bool {
        self.namespaces().network() == NamespaceMode::Node
    }

    /// Its addresses, the primary one first. None on the host's network.
    pub fn ips(&self) -> Vec<String> {
        let now = self.now.read().unwrap_or_else(PoisonError::into_inner);
        let ips = now.network.iter().flat_map(|network| &network.ips);
        ips.map(ToString::to_string).collect()
    }

    /// Where its containers' records are.
    pub fn containers_dir(&self) -> PathBuf {
        self.dir.join("containers")
    }
}

impl Now {
    fn apply(&mut self, event: Event) {
        match event {
            Event::Created { .. } => {}
            Event::Labelled { level } => self.selinux_level = Some(level),
            Event::Attaching { attachment } => self.attachment = Some(*attachment),
            Event::Attached { network } => self.network = Some(*network),
            Event::Detached => {
                self.network = None;
                self.attachment = None;
            }
            Event::Ready => self.phase = Phase::Ready,
            Event::NotReady => self.phase = Phase::NotReady,
            Event::Removing => self.phase = Phase::Removing,
        }
    }
}

/// Makes a directory that only the daemon may enter.
pub fn make_private_dir(path: &Path) -> Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new()
        .mode(0o711)
        .recursive(true)
        .create(path)
        .map_err(Error::io(format!(
            "making the directory {}",
            path.display()
        )))
        .map_err(Into::into)
}
