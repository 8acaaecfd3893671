//! The cgroup that an administrator configures for the engine and this daemon, so that their usage is accounted
//! together (`--runtime-cgroups`).

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;

use orlop_cgroup::{Cgroup, CgroupPath, Hierarchies};
use rustix::net::sockopt::socket_peercred;

use crate::error::{Error, Result, chain};

/// Moves both into the cgroup, if configured. The engine may be a new process after each reconnect.
pub(crate) async fn enter(
    wanted: Option<&str>,
    hierarchies: Option<&Arc<Hierarchies>>,
    endpoint: &Path,
) {
    let (Some(wanted), Some(hierarchies)) = (wanted, hierarchies) else {
        return;
    };
    let (wanted, hierarchies) = (wanted.to_owned(), Arc::clone(hierarchies));
    let endpoint = endpoint.to_owned();
    let done = orlop_pool::blocking(move || put(&wanted, &hierarchies, &endpoint)).await;
    if let Ok(Err(error)) = done {
        tracing::warn!(error = %chain(&*error), "cannot apply --runtime-cgroups");
    }
}

fn put(wanted: &str, hierarchies: &Arc<Hierarchies>, endpoint: &Path) -> Result<()> {
    let path = CgroupPath::parse(wanted)
        .map_err(|error| Error::invalid("docker.runtime_cgroups", error.to_string()))?;
    let cgroup = Cgroup::new(Arc::clone(hierarchies), path);
    let failed = |error: orlop_cgroup::Error| Error::Internal(chain(&error));
    cgroup.create().map_err(failed)?;
    for pid in [engine_pid(endpoint), i32::try_from(std::process::id()).ok()]
        .into_iter()
        .flatten()
    {
        cgroup.attach(pid).map_err(failed)?;
    }
    Ok(())
}

/// Returns the pid of the listener on the engine's socket. With socket activation that is the service manager, which
/// then manages the engine's cgroup.
fn engine_pid(endpoint: &Path) -> Option<i32> {
    let stream = UnixStream::connect(endpoint).ok()?;
    let pid = socket_peercred(&stream).ok()?.pid.as_raw_nonzero().get();
    let name = orlop_fs::read_kernel_text(format!("/proc/{pid}/comm")).ok()?;
    (name.trim() == "dockerd").then_some(pid)
}
