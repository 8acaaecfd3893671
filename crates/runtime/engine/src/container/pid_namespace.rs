//! The PID namespace of others that a container joins.
//!
//! Runtimes are told namespaces by a path with the number of a process in it, and open that when they
//! make the container. By then the process may have ended and its number be another's. So the process
//! is held here from before that until after: if it has not ended by then, the number was its own all
//! the time. If it has, nothing of the container's has run yet, and nothing will.

use orlop_cri_api::v1::NamespaceMode;
use orlop_launch::{Held, Keeper};

use crate::error::{Error, Result};
use crate::node::runtimes::Runtimes;
use crate::record::container::Container;
use crate::record::containers::Containers;

/// Whose namespace a container joins.
#[derive(Debug)]
pub enum Joined {
    /// That of the init that its pod's keeper has made.
    Pod(Keeper),
    /// That of another container's first process.
    Target(Held),
}

/// Takes hold of the process whose PID namespace a container joins, if it joins one.
pub async fn hold(
    containers: &Containers,
    runtimes: &Runtimes,
    container: &Container,
    keeper: &Keeper,
) -> Result<Option<Joined>> {
    let asked = container.namespaces().cloned().unwrap_or_default();
    // What a shim runs may have no namespaces on this kernel: what is joined is held by it.
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
    // Its parent has not reaped it: it had its number when that was looked up.
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

/// The PID namespace that the containers of a pod share has ended.
pub fn gone(pod: &str) -> Error {
    Error::Precondition(format!(
        "the shared PID namespace of pod sandbox {pod} ended with its first process; the pod \
         accepts no new containers"
    ))
}

impl Joined {
    /// Whether the process has not ended, so that its number was never another's.
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
