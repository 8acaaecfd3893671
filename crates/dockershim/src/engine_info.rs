//! Cache of the engine's `/info` response.

use std::sync::Arc;
use std::time::{Duration, Instant};

use orlop_cgroup::Driver;
use parking_lot::Mutex;
use tokio_util::task::TaskTracker;

use crate::docker::Docker;
use crate::docker::types::Info;
use crate::error::{Error, Result, chain};

/// How long a response is fresh. The engine counts all its containers for each one.
const SERVES: Duration = Duration::from_mins(1);

/// Cache of the engine's `/info` response. Cheap to clone; all clones share it.
#[derive(Debug, Clone)]
pub(crate) struct EngineInfo {
    docker: Arc<Docker>,
    tasks: TaskTracker,
    /// The configured cgroup driver, if any.
    wanted: Option<Driver>,
    last: Arc<Mutex<Option<Answer>>>,
}

#[derive(Debug)]
struct Answer {
    /// When the last refresh started.
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

    /// Clears the cache, because another engine may be running.
    pub(crate) fn forget(&self) {
        *self.last.lock() = None;
    }

    /// Returns the engine's `/info` response. If the response is stale, returns it anyway and refreshes it in the
    /// background: the call is slow because the engine runs programs and counts containers for it.
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

    /// Returns the cgroup driver, which the kubelet must use too.
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
