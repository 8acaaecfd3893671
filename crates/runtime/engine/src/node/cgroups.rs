//! The pods' and containers' cgroups: where they are, and ending what is in them.

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

/// How long the processes of a cgroup may take to die, or to leave it.
const PATIENCE: Duration = Duration::from_secs(2);

/// Where it is waited for processes that do not go: each call waits for its own.
static ENDING: Place = Place::new("killing the processes of cgroups", 64, 2, 4096);

/// A keeper is the last that should be killed for want of memory: its pod dies with it.
pub const KEEPER_OOM_SCORE: i32 = -998;

/// Where runtimes are tried out, unless systemd makes the cgroups.
pub const TRIALS: &str = "/orlop-trial";

/// Above the cgroups of pods whose client names none.
const OWN: &str = "/orlop";

/// The pods' and containers' cgroups.
#[derive(Debug)]
pub struct Cgroups {
    driver: Driver,
    hierarchies: Arc<Hierarchies>,
    keepers: CgroupPath,
    /// Whether somebody sees to it already that processes can be moved.
    getting_ready: Arc<AtomicBool>,
}

impl Cgroups {
    /// Looks at the machine.
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

    /// Who makes cgroups.
    pub fn driver(&self) -> Driver {
        self.driver
    }

    /// What the machine has.
    pub fn hierarchies(&self) -> &Hierarchies {
        &self.hierarchies
    }

    /// The cgroup above a pod's containers, as their specifications name it.
    pub fn parent(&self, pod: &Pod) -> Result<CgroupParent> {
        self.parent_of(&pod.id, &pod.linux().cgroup_parent)
    }

    /// The same for a pod that asks for this one; empty is one of ours.
    pub fn parent_of(&self, pod: &PodId, asked: &str) -> Result<CgroupParent> {
        let own = match self.driver {
            Driver::Cgroupfs => format!("{OWN}/{pod}"),
            Driver::Systemd => "system.slice".to_owned(),
        };
        CgroupParent::parse(asked, self.driver, &own).map_err(|error| Error::Spec(error).into())
    }

    /// The cgroup above a pod's containers, unless others are there too.
    pub fn of_pod(&self, pod: &Pod) -> Option<Cgroup> {
        let shared = self.driver == Driver::Systemd && pod.linux().cgroup_parent.is_empty();
        let parent = self.parent(pod).ok().filter(|_| !shared)?;
        Some(self.at(parent.path().clone()))
    }

    /// A container's cgroup, whether or not it is there.
    pub fn of_container(&self, container: &Container) -> Option<Cgroup> {
        if let Some(path) = container.cgroups_path() {
            return Some(self.at(CgroupParent::named_by(&path, self.driver)?));
        }
        let parent = self.parent(&container.pod).ok()?;
        Some(self.at(parent.container_path(container.id.as_str()).ok()?))
    }

    /// Where the memory controller keeps a container's figures.
    pub fn memory_dir(&self, container: &Container) -> Option<PathBuf> {
        self.of_container(container)?.directory("memory")
    }

    /// The directories that a keeper moves itself into.
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

    /// The same, which may not be there yet.
    pub fn for_keepers(&self) -> Vec<PathBuf> {
        // No controller is switched on for it: with version 2 that would make the daemon's own
        // cgroup, which has processes, a threaded one. A new cpuset of version 1 takes nobody
        // before it has processors, and keepers need none of their own.
        let cpuset = self.hierarchies.directory("cpuset", &self.keepers);
        let v1_cpuset = cpuset.filter(|_| !self.hierarchies.is_v2());
        let mut directories = self.hierarchies.directories(&self.keepers);
        directories.retain(|directory| Some(directory) != v1_cpuset.as_ref());
        directories
    }

    /// Removes what trying runtimes out has left above the trials' own cgroups.
    pub async fn remove_trials(&self) {
        let Ok(path) = CgroupPath::parse(TRIALS) else {
            return;
        };
        if self.driver == Driver::Cgroupfs {
            let trials = self.at(path);
            // Somebody else may be trying runtimes out just now.
            let removed = blocking(move || Ok(trials.remove(Duration::ZERO)));
            if let Ok(Err(error)) = removed.await {
                tracing::debug!(%error, "cannot remove the cgroup for runtime tests");
            }
        }
    }

    /// Has the kernel ready to move a process into a cgroup by the time that a runtime, called
    /// at the same time or soon, gets to it. Nobody waits for this, and a failure only costs time. A
    /// runtime that has no need of it would only wait, with all who fork, until the kernel is.
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

    /// Makes a container's cgroup, which its runtime finds when it comes to that: with version 1 there is a directory
    /// to be made in each hierarchy. Where it can't be made its runtime tells why.
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

    /// Whether cgroups are directories, to be made and removed by whoever may.
    pub fn are_directories(&self) -> bool {
        self.driver == Driver::Cgroupfs
    }

    /// Kills all that is in a container's cgroup, and below.
    pub async fn kill_processes(&self, container: &Container) {
        if let Some(cgroup) = self.of_container(container) {
            self.kill(cgroup, container.id.as_str()).await;
        }
    }

    /// Signals a container's first process; false where that is gone.
    pub async fn signal_first(&self, container: &Container, signal: u32) -> bool {
        let pid = container.pid().and_then(|pid| i32::try_from(pid).ok());
        let (Some(cgroup), Some(pid)) = (self.of_container(container), pid) else {
            return false;
        };
        let sent = blocking(move || Ok(cgroup.signal_one(pid, signal))).await;
        matches!(sent, Ok(Ok(true)))
    }

    /// Whether there are processes in a container's cgroup, or below. Where that cannot be said there may be.
    pub async fn has_processes(&self, container: &Container) -> bool {
        let Some(cgroup) = self.of_container(container) else {
            return true;
        };
        let processes = blocking(move || Ok(cgroup.processes())).await;
        !matches!(processes, Ok(Ok(processes)) if processes.is_empty())
    }

    /// Kills and removes what is left of the task of its own that a pod has in a shim, whose
    /// cgroup is beside those of its containers. A runtime that dies with the shim leaves it. Answers
    /// whether there was a process.
    pub async fn remove_shim_task(&self, pod: &Pod) -> Result<bool> {
        self.remove_unrecorded(pod, pod.id.as_str()).await
    }

    /// Kills and removes what a pod has under an id of which there is no record. Answers whether there was a
    /// process.
    pub async fn remove_unrecorded(&self, pod: &Pod, id: &str) -> Result<bool> {
        let parent = self.parent(pod)?;
        let path = parent.container_path(id).map_err(Error::Spec)?;
        self.end_and_remove(path, id).await
    }

    /// Kills and removes what the specification of `id` names as `linux.cgroupsPath`; what was named otherwise by a
    /// plugin, and may be others' as well, only where it is empty. Answers whether there was a process.
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

    /// Removes what is left of a container's cgroup, once its processes are gone.
    pub async fn remove(&self, container: &Container) -> Result<()> {
        match self.of_container(container) {
            Some(cgroup) => self.remove_empty(cgroup).await,
            None => Ok(()),
        }
    }

    /// Limits a pod's cgroup if it is one of ours rather than the client's.
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

    /// Gives the cgroups above pods' containers the limits back that an earlier run of the daemon raised, which died
    /// while it killed something there.
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

    /// Removes a pod's cgroup if it is one of ours rather than the client's.
    pub async fn remove_pod(&self, pod: &Pod) -> Result<()> {
        match self.of_pod(pod) {
            Some(cgroup) if pod.linux().cgroup_parent.is_empty() => self.remove_empty(cgroup).await,
            _ => Ok(()),
        }
    }

    /// The pods that have a cgroup of ours.
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

/// systemd must have delegated the cgroup that others may make cgroups in: its unit's own.
fn default_keepers(driver: Driver) -> Result<String> {
    if driver == Driver::Cgroupfs {
        return Ok("/orlop/keepers".into());
    }
    let membership = Membership::own().map_err(Error::io("reading the daemon's own cgroup"))?;
    let own = membership.path("").unwrap_or("/");
    Ok(format!("{own}/keepers"))
}
