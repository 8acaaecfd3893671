//! The cgroups of pods and containers: their paths, and killing the processes in them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use orlop_cgroup::{Cgroup, CgroupPath, Driver, Hierarchies, Limits};
use orlop_fs::Membership;
use orlop_oci_types::Features;
use orlop_pool::Place;
use tokio_util::task::TaskTracker;

use crate::config::Config;
use crate::error::{Error, Result};
use crate::off_reactor::{blocking, waiting};
use crate::record::container::Container;
use crate::record::ids::PodId;
use crate::record::pod::Pod;
use crate::spec::CgroupParent;

/// Timeout for the processes of a cgroup to exit, or to leave it.
const PATIENCE: Duration = Duration::from_secs(2);

/// Threads that wait for processes to exit: each call waits for its own.
static ENDING: Place = Place::new("killing the processes of cgroups", 64, 2, 4096);

/// The kernel should kill a keeper last when memory runs out: its pod dies with it.
pub const KEEPER_OOM_SCORE: i32 = -998;

/// The cgroup for runtime trials, unless systemd makes the cgroups.
pub const TRIALS: &str = "/orlop-trial";

/// The parent of pod cgroups if the client names none.
const OWN: &str = "/orlop";

/// The cgroups of pods and containers.
#[derive(Debug)]
pub struct Cgroups {
    driver: Driver,
    hierarchies: Arc<Hierarchies>,
    keepers: CgroupPath,
    /// Whether a task already prepares the kernel for moving processes.
    getting_ready: Arc<AtomicBool>,
}

impl Cgroups {
    /// Detects the cgroup hierarchies and the driver.
    pub fn find(config: &Config) -> Result<Self> {
        let hierarchies = Hierarchies::detect()
            .map_err(|error| Error::Internal(format!("cannot read the cgroups: {error}")))?;
        let driver = config.cgroup_driver.unwrap_or_else(|| {
            let systemd = Path::new("/run/systemd/system").is_dir();
            if systemd && hierarchies.is_v2() {
                Driver::Systemd
            } else {
                Driver::Cgroupfs
            }
        });
        let keepers = match &config.keeper_cgroup {
            Some(path) => path.clone(),
            None => default_keepers(driver)?,
        };
        let keepers = CgroupPath::parse(&keepers).map_err(|error| {
            Error::Internal(format!("cannot use the cgroup of keepers: {error}"))
        })?;
        Ok(Self {
            driver,
            hierarchies: Arc::new(hierarchies),
            keepers,
            getting_ready: Arc::default(),
        })
    }

    /// Returns the cgroup driver.
    pub fn driver(&self) -> Driver {
        self.driver
    }

    /// Returns the cgroup hierarchies of the machine.
    pub fn hierarchies(&self) -> &Hierarchies {
        &self.hierarchies
    }

    /// Returns the cgroup above a pod's containers, as their specifications name it.
    pub fn parent(&self, pod: &Pod) -> Result<CgroupParent> {
        self.parent_of(&pod.id, &pod.linux().cgroup_parent)
    }

    /// Returns the cgroup above the containers of a pod that asks for `asked`; if empty, the engine's default.
    pub fn parent_of(&self, pod: &PodId, asked: &str) -> Result<CgroupParent> {
        let own = match self.driver {
            Driver::Cgroupfs => format!("{OWN}/{pod}"),
            Driver::Systemd => "system.slice".to_owned(),
        };
        CgroupParent::parse(asked, self.driver, &own).map_err(|error| Error::Spec(error).into())
    }

    /// Returns the cgroup above a pod's containers, unless it is shared with others.
    pub fn of_pod(&self, pod: &Pod) -> Option<Cgroup> {
        let shared = self.driver == Driver::Systemd && pod.linux().cgroup_parent.is_empty();
        let parent = self.parent(pod).ok().filter(|_| !shared)?;
        Some(self.at(parent.path().clone()))
    }

    /// Returns a container's cgroup, whether or not it exists.
    pub fn of_container(&self, container: &Container) -> Option<Cgroup> {
        if let Some(path) = container.cgroups_path() {
            return Some(self.at(CgroupParent::named_by(&path, self.driver)?));
        }
        let parent = self.parent(&container.pod).ok()?;
        Some(self.at(parent.container_path(container.id.as_str()).ok()?))
    }

    /// Returns the directory where the memory controller keeps a container's statistics.
    pub fn memory_dir(&self, container: &Container) -> Option<PathBuf> {
        self.of_container(container)?.directory("memory")
    }

    /// Makes and returns the directories that a keeper moves itself into.
    pub fn of_keepers(&self) -> Vec<PathBuf> {
        let directories = self.for_keepers();
        for directory in &directories {
            if let Err(error) = std::fs::create_dir_all(directory) {
                tracing::warn!(%error, "cannot create the keepers' cgroup; keepers stay in the daemon's cgroup");
                return Vec::new();
            }
        }
        directories
    }

    /// Returns these directories, which may not exist yet.
    pub fn for_keepers(&self) -> Vec<PathBuf> {
        // No controller is enabled for it: in cgroup v2 that would turn the daemon's own cgroup, which has
        // processes, into a threaded one. A new cpuset of v1 accepts no process before it has CPUs, and keepers
        // need none of their own.
        let cpuset = self.hierarchies.directory("cpuset", &self.keepers);
        let v1_cpuset = cpuset.filter(|_| !self.hierarchies.is_v2());
        let mut directories = self.hierarchies.directories(&self.keepers);
        directories.retain(|directory| Some(directory) != v1_cpuset.as_ref());
        directories
    }

    /// Removes what runtime trials left above the trials' own cgroups.
    pub async fn remove_trials(&self) {
        let Ok(path) = CgroupPath::parse(TRIALS) else {
            return;
        };
        if self.driver == Driver::Cgroupfs {
            let trials = self.at(path);
            // Another process may be running trials just now.
            let removed = blocking(move || Ok(trials.remove(Duration::ZERO)));
            if let Ok(Err(error)) = removed.await {
                tracing::debug!(%error, "cannot remove the cgroup for runtime tests");
            }
        }
    }

    /// Prepares the kernel to move a process into a cgroup by the time a runtime, called now or soon, does so.
    /// No caller waits for this, and a failure only costs time. A runtime that does not need it would only
    /// wait, with all processes that fork, until the kernel is ready.
    pub fn expect_move(&self, runtime: &Features, tasks: &TaskTracker) {
        if runtime.moves_at_once() || self.getting_ready.swap(true, Ordering::AcqRel) {
            return;
        }
        let hierarchies = Arc::clone(&self.hierarchies);
        let getting_ready = Arc::clone(&self.getting_ready);
        tasks.spawn(orlop_pool::blocking(move || {
            if let Err(error) = hierarchies.make_ready_to_move() {
                tracing::debug!(%error, "cannot prepare to move processes between cgroups");
            }
            getting_ready.store(false, Ordering::Release);
        }));
    }

    /// Makes a container's cgroup before its runtime needs it: cgroup v1 needs a directory in each hierarchy.
    /// If that fails, the runtime reports why.
    pub async fn make_ahead(&self, container: &Container, runtime: &Features) {
        if !self.are_directories() || !runtime.fills_cgroups() {
            return;
        }
        if let Some(cgroup) = self.of_container(container)
            && let Ok(Err(error)) = blocking(move || Ok(cgroup.create_directories())).await
        {
            tracing::debug!(%error, "cannot create a container's cgroup in advance; the runtime will try");
        }
    }

    /// Whether cgroups are plain directories that the engine may make and remove.
    pub fn are_directories(&self) -> bool {
        self.driver == Driver::Cgroupfs
    }

    /// Kills all processes in a container's cgroup and below.
    pub async fn kill_processes(&self, container: &Container) {
        if let Some(cgroup) = self.of_container(container) {
            self.kill(cgroup, container.id.as_str()).await;
        }
    }

    /// Signals a container's first process; returns false if that is gone.
    pub async fn signal_first(&self, container: &Container, signal: u32) -> bool {
        let pid = container.pid().and_then(|pid| i32::try_from(pid).ok());
        let (Some(cgroup), Some(pid)) = (self.of_container(container), pid) else {
            return false;
        };
        let sent = blocking(move || Ok(cgroup.signal_one(pid, signal))).await;
        matches!(sent, Ok(Ok(true)))
    }

    /// Whether there are processes in a container's cgroup or below. True if that is unknown.
    pub async fn has_processes(&self, container: &Container) -> bool {
        let Some(cgroup) = self.of_container(container) else {
            return true;
        };
        let processes = blocking(move || Ok(cgroup.processes())).await;
        !matches!(processes, Ok(Ok(processes)) if processes.is_empty())
    }

    /// Kills and removes the rest of the pod's own task in a shim. The task's cgroup is a sibling of the
    /// containers' cgroups. A runtime that dies with the shim leaves it behind. Returns whether there was a process.
    pub async fn remove_shim_task(&self, pod: &Pod) -> Result<bool> {
        self.remove_unrecorded(pod, pod.id.as_str()).await
    }

    /// Kills and removes what a pod has under an id that has no record. Returns whether there was a process.
    pub async fn remove_unrecorded(&self, pod: &Pod, id: &str) -> Result<bool> {
        let parent = self.parent(pod)?;
        let path = parent.container_path(id).map_err(Error::Spec)?;
        self.end_and_remove(path, id).await
    }

    /// Kills and removes the cgroup that the specification of `id` names as `linux.cgroupsPath`. A path that a
    /// plugin chose may be shared, so that cgroup is only removed if empty. Returns whether there was a
    /// process.
    pub async fn remove_named(&self, cgroups_path: &str, id: &str) -> Result<bool> {
        let Some(path) = CgroupParent::named_by(cgroups_path, self.driver) else {
            let problem = format!("{cgroups_path:?} is not a cgroup path of the configured driver");
            return Err(Error::Precondition(problem).into());
        };
        if path.name().contains(id) {
            return self.end_and_remove(path, id).await;
        }
        self.remove_empty(self.at(path)).await?;
        Ok(false)
    }

    async fn end_and_remove(&self, path: CgroupPath, id: &str) -> Result<bool> {
        let cgroup = self.at(path);
        let looked = cgroup.clone();
        let processes = blocking(move || Ok(looked.processes())).await?;
        self.kill(cgroup.clone(), id).await;
        self.remove_empty(cgroup).await?;
        Ok(processes.is_ok_and(|processes| !processes.is_empty()))
    }

    async fn kill(&self, cgroup: Cgroup, of: &str) {
        if cgroup.path().is_root() {
            tracing::error!(id = of, "refusing to kill the processes of the root cgroup");
            return;
        }
        let owner = cgroup.path().to_string();
        let killed = waiting(&ENDING, &owner, move || Ok(cgroup.kill(PATIENCE))).await;
        let problem = match killed {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        tracing::warn!(id = of, problem, "cannot kill the processes of a cgroup");
    }

    /// Removes the rest of a container's cgroup, once its processes are gone.
    pub async fn remove(&self, container: &Container) -> Result<()> {
        match self.of_container(container) {
            Some(cgroup) => self.remove_empty(cgroup).await,
            None => Ok(()),
        }
    }

    /// Limits a pod's cgroup if the engine, not the client, chose it.
    pub async fn limit_pod(&self, pod: &Pod, limits: Limits) -> Result<()> {
        if !pod.linux().cgroup_parent.is_empty() {
            return Ok(());
        }
        let Some(cgroup) = self.of_pod(pod) else {
            return Ok(());
        };
        blocking(move || {
            let limited = cgroup.create().and_then(|()| cgroup.set(&limits));
            limited.map_err(|error| {
                let path = cgroup.path();
                Error::Internal(format!(
                    "cannot set the limits of the pod's cgroup {path}: {error}"
                ))
                .into()
            })
        })
        .await
    }

    /// Restores limits of the cgroups above pods' containers. An earlier run of the daemon raised them and died
    /// while it killed processes there.
    pub async fn give_back_limits(&self, pods: &[Arc<Pod>]) {
        let parents = pods.iter().filter_map(|pod| self.parent(pod).ok());
        let cgroups: Vec<_> = parents
            .map(|parent| self.at(parent.path().clone()))
            .collect();
        let given = blocking(move || {
            for cgroup in cgroups {
                if let Err(error) = cgroup.give_back_limit() {
                    tracing::warn!(
                        cgroup = %cgroup.path(),
                        %error,
                        "cannot restore a raised cgroup limit; it stays raised for now"
                    );
                }
            }
            Ok(())
        });
        if let Err(error) = given.await {
            tracing::warn!(%error, "cannot restore cgroup limits that an earlier daemon raised");
        }
    }

    /// Removes a pod's cgroup if the engine, not the client, chose it.
    pub async fn remove_pod(&self, pod: &Pod) -> Result<()> {
        match self.of_pod(pod) {
            Some(cgroup) if pod.linux().cgroup_parent.is_empty() => self.remove_empty(cgroup).await,
            _ => Ok(()),
        }
    }

    /// Returns the pods that have a cgroup of the engine's own.
    pub fn pods(&self) -> Vec<(PodId, Cgroup)> {
        if self.driver == Driver::Systemd {
            return Vec::new();
        }
        let Ok(top) = CgroupPath::parse(OWN) else {
            return Vec::new();
        };
        let mut pods = BTreeMap::new();
        for directory in self.hierarchies.directories(&top) {
            let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
            for entry in entries {
                let name = entry.file_name().to_string_lossy().into_owned();
                if let Some(id) = PodId::parse(&name)
                    && let Ok(path) = CgroupPath::parse(&format!("{OWN}/{id}"))
                {
                    pods.insert(id, self.at(path));
                }
            }
        }
        pods.into_iter().collect()
    }

    /// Removes a cgroup without processes.
    pub async fn remove_empty(&self, cgroup: Cgroup) -> Result<()> {
        let owner = cgroup.path().to_string();
        waiting(&ENDING, &owner, move || {
            cgroup.remove(PATIENCE).map_err(|error| {
                Error::Internal(format!("cannot remove cgroup {}: {error}", cgroup.path())).into()
            })
        })
        .await
    }

    fn at(&self, path: CgroupPath) -> Cgroup {
        Cgroup::new(Arc::clone(&self.hierarchies), path)
    }
}

/// Returns the default cgroup of keepers. With systemd it is in the unit's own cgroup, which must be
/// delegated.
fn default_keepers(driver: Driver) -> Result<String> {
    if driver == Driver::Cgroupfs {
        return Ok("/orlop/keepers".into());
    }
    let membership = Membership::own().map_err(Error::io("reading the daemon's own cgroup"))?;
    let own = membership.path("").unwrap_or("/");
    Ok(format!("{own}/keepers"))
}
