//! The PID namespace of another process that a container joins.
//!
//! Runtimes receive namespaces as a path that contains a process ID, and open it when they create the container. Until
//! then the process may have ended and another may have its ID. So a handle on the process is opened before and checked
//! afterwards: if the process still lives, the ID was its own all the time. If it has ended, the container fails before
//! any of its processes has run.

use orlop_cri_api::v1::NamespaceMode;
use orlop_launch::{Held, Keeper};

use crate::error::{Error, Result};
use crate::node::runtimes::Runtimes;
use crate::record::container::Container;
use crate::record::containers::Containers;

/// The process whose PID namespace a container joins.
#[derive(Debug)]
pub enum Joined {
    /// The init process that the pod's keeper has created.
    Pod(Keeper),
    /// The first process of another container.
    Target(Held),
}

/// Opens a handle on the process whose PID namespace a container joins, if it joins one.
pub async fn hold(
    containers: &Containers,
    runtimes: &Runtimes,
    container: &Container,
    keeper: &Keeper,
) -> Result<Option<Joined>> {
    let asked = container.namespaces().cloned().unwrap_or_default();
    // A shim may run its containers without namespaces on this kernel; the shim itself joins them.
    if runtimes.of(&container.pod)?.settings.is_shim() {
        if asked.pid() == NamespaceMode::Target {
            let target = containers.find(&asked.target_id)?;
            target_pid(&target)?;
        }
        return Ok(None);
    }
    let shares = container.pod.namespaces().pid() == NamespaceMode::Pod;
    let joined = match asked.pid() {
        NamespaceMode::Pod if shares => Joined::Pod(keeper.clone()),
        NamespaceMode::Target => hold_target(containers, &asked.target_id, keeper).await?,
        _ => return Ok(None),
    };
    joined.check(container)?;
    Ok(Some(joined))
}

async fn hold_target(containers: &Containers, target: &str, keeper: &Keeper) -> Result<Joined> {
    let target = containers.find(target)?;
    let pid = target_pid(&target)?;
    let held = Held::open(pid).map_err(|_| not_running(&target))?;
    let listing = keeper.list().await.map_err(|source| Error::Launch {
        doing: format!("looking up the process of container {}", target.id),
        source,
    })?;
    // The parent has not reaped the process, so the process had this ID at the lookup.
    let lives = listing
        .containers
        .iter()
        .any(|info| info.id == target.id.as_str() && info.pid == pid && info.exit.is_none());
    if lives {
        Ok(Joined::Target(held))
    } else {
        Err(not_running(&target).into())
    }
}

fn target_pid(target: &Container) -> Result<u32> {
    target.pid().ok_or_else(|| not_running(target).into())
}

fn not_running(target: &Container) -> Error {
    let problem = format!("the target container {} is not running", target.id);
    Error::Precondition(problem)
}

/// The error for a shared PID namespace of a pod that has ended.
pub fn gone(pod: &str) -> Error {
    Error::Precondition(format!(
        "the shared PID namespace of pod sandbox {pod} ended with its first process; the pod \
         accepts no new containers"
    ))
}

impl Joined {
    /// Returns an error if the process has ended, as its ID may then belong to another process.
    pub fn check(&self, container: &Container) -> Result<()> {
        match self {
            Self::Pod(keeper) if keeper.pid_ns().is_none() => {
                Err(gone(container.pod.id.as_str()).into())
            }
            Self::Target(held) if held.has_ended() => {
                let problem = format!(
                    "the container whose PID namespace container {} joins has exited",
                    container.id
                );
                Err(Error::Precondition(problem).into())
            }
            _ => Ok(()),
        }
    }
}
