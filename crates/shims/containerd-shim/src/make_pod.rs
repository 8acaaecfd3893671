//! Creates and ends a pod. A keeper in the namespaces of the pod replaces the pause container.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use orlop_cgroup::{Cgroup, Systemd};
use orlop_keeper_protocol::{Setup, ShmMount, Sysctl};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::cgroup;
use crate::error::{Result, failed, too_soon, unknown};
use crate::options::Options;
use crate::pod::{Space, Wanted};
use crate::program::{background, readable};
use crate::shim::Shim;
use crate::tasks::{Exit, Phase};

/// No timeout in practice.
const LONG: Duration = Duration::from_hours(1);

impl Shim {
    /// Creates the pod as the task of this name.
    pub(crate) fn make_pod(
        self: &Arc<Self>,
        id: &str,
        wanted: &Wanted,
        options: &Options,
    ) -> Result<u32> {
        let cgroup = self.cgroup(&wanted.cgroups_path, options.systemd_cgroup);
        let made = self.make_keeper(wanted, options, cgroup.as_ref());
        let (pid, init) = match made {
            Ok(made) => made,
            Err(status) => {
                if let Some(keeper) = self.take_keeper() {
                    keeper.end();
                }
                cgroup::remove(cgroup.as_ref(), options.systemd_cgroup);
                return Err(status);
            }
        };
        let mut pod = self.pod.lock();
        pod.cgroup.clone_from(&cgroup);
        pod.is_scope = options.systemd_cgroup;
        pod.init.clone_from(&init);
        if wanted.shm.is_some() {
            pod.shared
                .push(("/dev/shm", self.place.shared().join("shm")));
        }
        drop(pod);
        let mut tasks = self.tasks.lock();
        let task = tasks.get(id)?;
        task.cgroup = cgroup;
        task.process.pid = pid;
        task.process.phase = Phase::Created;
        drop(tasks);
        if let Some(init) = init {
            let (shim, id) = (Arc::clone(self), id.to_owned());
            background(move || {
                while !readable(&init, LONG) {}
                shim.ended(&id, "", Exit::now(128 + libc::SIGKILL as u32));
            })?;
        }
        Ok(pid)
    }

    /// Starts the keeper. Returns the process with the pod's namespaces, and the one whose exit ends the pod.
    fn make_keeper(
        self: &Arc<Self>,
        wanted: &Wanted,
        options: &Options,
        cgroup: Option<&Cgroup>,
    ) -> Result<(u32, Option<Arc<OwnedFd>>)> {
        let directories = cgroup.filter(|_| !options.systemd_cgroup);
        if let Some(cgroup) = directories {
            // Written before the cgroup is created, for a cleanup by another process.
            let note = self.place.cgroup_note();
            fs::write(&note, cgroup.path().as_str()).map_err(failed("writing", &note))?;
            let problem = |error| unknown(format!("creating the pod's cgroup: {error}"));
            cgroup.create().map_err(problem)?;
        }
        let shm = self.place.shared().join("shm");
        if wanted.shm.is_some() {
            crate::place::make_private(&shm)?;
        }
        let setup = || {
            let own = |space: &Space| *space == Space::Own;
            for (kind, space) in [
                ("ipc", &wanted.ipc),
                ("uts", &wanted.uts),
                ("pid", &wanted.pid),
            ] {
                if let Space::At(path) = space {
                    let path = path.display();
                    return Err(unknown(format!(
                        "a pod cannot join the existing {kind} namespace {path}"
                    )));
                }
            }
            let sysctls = wanted.sysctls.iter();
            let sysctls = sysctls.map(|(name, value)| Sysctl {
                name: name.clone(),
                value: value.clone(),
            });
            Ok(Setup {
                net: own(&wanted.network),
                ipc: own(&wanted.ipc),
                uts: own(&wanted.uts),
                pid: own(&wanted.pid),
                net_path: match &wanted.network {
                    Space::At(path) => path.clone(),
                    _ => PathBuf::new(),
                },
                hostname: wanted.hostname.clone(),
                sysctls: sysctls.collect(),
                shm: wanted.shm.map(|size| ShmMount {
                    path: shm.clone(),
                    size,
                    label: String::new(),
                }),
                cgroups: directories.map(Cgroup::directories).unwrap_or_default(),
                ..Setup::default()
            })
        };
        let (keeper, is_new) = self.keeper_of(setup)?;
        if !is_new {
            return Err(too_soon("this shim already has a pod"));
        }
        if let (true, Some(cgroup)) = (options.systemd_cgroup, cgroup) {
            let pids = [keeper.pid, keeper.init];
            let pids: Vec<u32> = pids.into_iter().filter(|pid| *pid != 0).collect();
            let started =
                Systemd::connect().and_then(|mut systemd| systemd.start_scope(cgroup, &pids, &[]));
            started.map_err(|error| unknown(format!("creating the pod's scope: {error}")))?;
        }
        // The process whose PID namespace the containers share.
        let Some(init) = Pid::from_raw(keeper.init as i32) else {
            return Ok((keeper.pid, None));
        };
        let held = pidfd_open(init, PidfdFlags::empty());
        let held = held.map_err(failed("opening the first process of", Path::new("the pod")))?;
        Ok((keeper.init, Some(Arc::new(held))))
    }

    /// Signals the pod as its pause container would be. Processes that share its PID namespace end with it.
    pub(crate) fn kill_pod(self: &Arc<Self>, id: &str, signal: u32) {
        let code = match signal as i32 {
            // pause exits with 0 on these signals.
            libc::SIGINT | libc::SIGTERM => 0,
            libc::SIGKILL => 128 + signal,
            // pause ignores other signals.
            _ => return,
        };
        self.ended(id, "", Exit::now(code));
        let init = self.pod.lock().init.clone();
        if let Some(init) = init {
            let _ = pidfd_send_signal(&*init, Signal::KILL);
        }
    }

    /// Removes the rest of the pod after its keeper is dead.
    pub(crate) fn unmake_pod(&self) {
        let pod = std::mem::take(&mut *self.pod.lock());
        cgroup::remove(pod.cgroup.as_ref(), pod.is_scope);
        let _ = orlop_fs::remove_tree(&self.place.shared());
    }
}
