//! `Pids`: the processes of a container.

use std::collections::BTreeMap;
use std::sync::Arc;

use orlop_cgroup::{Cgroup, CgroupPath, Hierarchies};
use orlop_containerd_api::Any;
use orlop_containerd_api::runc::ProcessDetails;
use orlop_containerd_api::task::{PidsRequest, PidsResponse};
use orlop_containerd_api::task_types::ProcessInfo;
use orlop_fs::Membership;

use crate::error::{Result, unknown};
use crate::shim::Shim;

pub(super) fn call(shim: &Arc<Shim>, request: PidsRequest) -> Result<PidsResponse> {
    let id = request.id;
    let (pid, lives_in_container, commands) = {
        let mut tasks = shim.tasks.lock();
        let task = tasks.get(&id)?;
        let commands = task.commands.iter();
        let commands = commands.map(|(name, it)| (it.process.pid, name.clone()));
        let commands: BTreeMap<u32, String> = commands.collect();
        // The pid of an exited process may be reused, so its cgroup is not read. The pid itself is reported: after a
        // restart, containerd 2 takes a task without processes for one that was never created, and deletes it with its
        // exit code.
        let lives = task.process.exit.is_none();
        (task.process.pid, lives && task.runtime.is_some(), commands)
    };
    let pids = if lives_in_container {
        of_container(&shim.hierarchies, pid)?
    } else {
        vec![pid]
    };
    let details = |exec_id: &String| {
        Any::pack(&ProcessDetails {
            exec_id: exec_id.clone(),
        })
    };
    let processes = pids.into_iter().map(|pid| ProcessInfo {
        pid,
        info: commands.get(&pid).map(details),
    });
    Ok(PidsResponse {
        processes: processes.collect(),
    })
}

/// Lists the processes in the cgroup of a container's first process. The first process is included until its exit is
/// reported, even if its pid no longer exists.
fn of_container(hierarchies: &Arc<Hierarchies>, pid: u32) -> Result<Vec<u32>> {
    let Ok(membership) = Membership::of(pid) else {
        return Ok(vec![pid]);
    };
    let controller = if hierarchies.is_v2() { "" } else { "pids" };
    let path = membership
        .path(controller)
        .and_then(|path| CgroupPath::parse(path).ok());
    let Some(path) = path.filter(|path| !path.is_root()) else {
        return Ok(vec![pid]);
    };
    let cgroup = Cgroup::new(Arc::clone(hierarchies), path);
    let processes = cgroup.processes();
    let processes = processes
        .map_err(|error| unknown(format!("listing the processes of a container: {error}")))?;
    if processes.is_empty() {
        return Ok(vec![pid]);
    }
    Ok(processes.into_iter().map(|pid| pid as u32).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_was_reaped_and_not_reported_yet_is_still_told() {
        let hierarchies = Arc::new(Hierarchies::detect().unwrap());
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        assert_eq!(of_container(&hierarchies, pid).unwrap(), [pid]);
    }
}
