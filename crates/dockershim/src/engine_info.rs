//! What the engine says about itself, remembered for a while.

use std::sync::Arc;
use std::time::{Duration, Instant};

use orlop_cgroup::Driver;
use parking_lot::Mutex;
use tokio_util::task::TaskTracker;

use crate::docker::Docker;
use crate::docker::types::Info;
use crate::error::{Error, Result, chain};

/// The engine counts all its containers for an answer.
const SERVES: Duration = Duration::from_mins(1);

/// What the engine says about itself. Cheap to clone; all clones are one.
#[derive(Debug, Clone)]
pub(crate) struct EngineInfo {
    docker: Arc<Docker>,
    tasks: TaskTracker,
    /// The driver that is configured, if one is.
    wanted: Option<Driver>,
    last: Arc<Mutex<Option<Answer>>>,
}

#[derive(Debug)]
struct Answer {
    /// When it was asked for anew.
    at: Instant,
    info: Arc<Info>,
}

impl EngineInfo {
    pub(crate) fn new(docker: Arc<Docker>, tasks: TaskTracker, wanted: Option<Driver>) -> Self {
        Self {
            docker,
            tasks,
            wanted,
            last: Arc::default(),
        }
    }

    /// Forgets it: there may be another engine now.
    pub(crate) fn forget(&self) {
        *self.last.lock() = None;
    }

    /// What the engine says about itself. What it said a while ago serves once more, while it is
    /// asked anew: it runs programs and counts containers for its answer.
    pub(crate) async fn get(&self) -> Result<Arc<Info>> {
        if let Some(last) = &mut *self.last.lock() {
            if last.at.elapsed() >= SERVES {
                last.at = Instant::now();
                let asking = self.clone();
                self.tasks.spawn(async move {
                    if let Err(error) = asking.ask().await {
                        tracing::debug!(error = %chain(&*error), "cannot refresh the information about the Docker Engine");
                    }
                });
            }
            return Ok(Arc::clone(&last.info));
        }
        self.ask().await
    }

    async fn ask(&self) -> Result<Arc<Info>> {
        let info = self.docker.info().await;
        let info = Arc::new(info.map_err(Error::engine(
            "getting the system information of the Docker Engine",
        ))?);
        *self.last.lock() = Some(Answer {
            at: Instant::now(),
            info: Arc::clone(&info),
        });
        Ok(info)
    }

    /// Who makes the cgroups, which the kubelet must follow.
    pub(crate) async fn cgroup_driver(&self) -> Result<Driver> {
        let info = self.get().await?;
        let driver = match info.cgroup_driver.as_str() {
            "systemd" => Driver::Systemd,
            "cgroupfs" => Driver::Cgroupfs,
            other => {
                let problem = format!(
                    "the Docker Engine's cgroup driver is {other:?}, but pods need \"systemd\" or \
                     \"cgroupfs\"; set native.cgroupdriver in the engine's exec-opts"
                );
                return Err(Error::Precondition(problem).into());
            }
        };
        match self.wanted {
            Some(wanted) if wanted != driver => {
                let problem = format!(
                    "the Docker Engine's cgroup driver is {}, but {} is configured; change \
                     cgroup_driver (--cgroup-driver) of orlop, or native.cgroupdriver in the \
                     engine's exec-opts",
                    spelt(driver),
                    spelt(wanted),
                );
                Err(Error::Precondition(problem).into())
            }
            _ => Ok(driver),
        }
    }
}

fn spelt(driver: Driver) -> &'static str {
    match driver {
        Driver::Systemd => "systemd",
        Driver::Cgroupfs => "cgroupfs",
    }
}
