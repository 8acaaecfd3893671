//! What the engine says about itself, remembered for a while.

use std::sync::Arc;
use std::time::{Duration, Instant};

use orlop_cgroup::Driver;
use parking_lot::Mutex;

use crate::docker::types::Info;
use crate::error::{Error, Result};
use crate::shim::Shim;

/// The engine counts all its containers for an answer.
const SERVES: Duration = Duration::from_mins(1);

/// The last answer, and when it was asked for anew.
#[derive(Debug, Default)]
pub(crate) struct InfoMemory(Mutex<Option<(Instant, Arc<Info>)>>);

impl InfoMemory {
    /// Forgets it: there may be another engine now.
    pub(crate) fn forget(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, Option<(Instant, Arc<Info>)>> {
        self.0.lock()
    }
}

impl Shim {
    /// What the engine says about itself. What it said a while ago serves once more, while it is
    /// asked anew: it runs programs and counts containers for its answer.
    pub(crate) async fn info(&self) -> Result<Arc<Info>> {
        if let Some((at, info)) = &mut *self.info.lock() {
            if at.elapsed() >= SERVES {
                *at = Instant::now();
                let shim = self.clone();
                self.tasks.spawn(async move {
                    if let Err(error) = shim.ask_for_info().await {
                        tracing::debug!(error = %crate::error::chain(&*error), "cannot refresh the information about the Docker Engine");
                    }
                });
            }
            return Ok(Arc::clone(info));
        }
        self.ask_for_info().await
    }

    async fn ask_for_info(&self) -> Result<Arc<Info>> {
        let info = self.docker.info().await;
        let info = Arc::new(info.map_err(Error::engine(
            "getting the system information of the Docker Engine",
        ))?);
        *self.info.lock() = Some((Instant::now(), Arc::clone(&info)));
        Ok(info)
    }

    /// Who makes the cgroups, which the kubelet must follow.
    pub(crate) async fn cgroup_driver(&self) -> Result<Driver> {
        let info = self.info().await?;
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
        match self.config.cgroup_driver {
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
