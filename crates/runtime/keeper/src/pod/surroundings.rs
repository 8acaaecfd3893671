//! Creates the pod's cgroups, namespaces and mounts in order.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use orlop_keeper_protocol::{EXITS_DIR, Setup, VERSION, Welcome};
use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, fstat, mkdirat, stat};
use rustix::io::Errno;
use rustix::process::{Pid, getpid};

use super::mounts::{Mounts, Placed};
use super::view::{By, View};
use super::{init, namespaces, place, sysctl};
use crate::sys::loopback;
use crate::sys::process::Parent;
use crate::sys::spawn::Protected;

/// Search path for programs unless the daemon sends another.
const USUAL_PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Descriptors sent with the daemon's first message.
#[derive(Debug)]
pub(crate) struct Given {
    few_mounts: Option<OwnedFd>,
    program: Option<OwnedFd>,
}

impl Given {
    pub(crate) fn with(setup: &Setup, descriptors: Vec<OwnedFd>) -> Self {
        let mut all = descriptors.into_iter();
        let mut next = |is_there: bool| if is_there { all.next() } else { None };
        Self {
            few_mounts: next(setup.few_mounts),
            program: next(!setup.program.as_os_str().is_empty()),
        }
    }
}

/// The pod's namespaces, mounts and directories, which this process holds.
#[derive(Debug)]
pub(crate) struct Pod {
    pub(crate) id: String,
    /// The pod's directory.
    pub(crate) dir: OwnedFd,
    /// The directory of exit records.
    pub(crate) exits: OwnedFd,
    /// The init of a shared PID namespace.
    pub(crate) init: Option<Pid>,
    /// The environment for runtimes.
    pub(crate) env: Vec<OsString>,
    user_ns: Option<OwnedFd>,
    warnings: Vec<String>,
    pub(crate) mounts: Mounts,
    /// The runtime's program, as it was when the pod was created.
    pub(crate) program: Option<Protected>,
    /// The mount of the shared memory.
    shm: Option<Placed>,
    /// The `/proc` mount in which kernel parameters were set, to be closed.
    pub(crate) parameters: Option<OwnedFd>,
}

impl Pod {
    /// Creates everything in the pod's directory, which is [locked](lock_dir). If it fails, namespaces end with the
    /// process; the pin and the files remain.
    pub(crate) fn make(setup: Setup, dir: OwnedFd, given: Given) -> Result<Self, String> {
        let mut warnings = Vec::new();
        let exits_path = setup.dir.join(EXITS_DIR);
        match mkdirat(&dir, EXITS_DIR, Mode::from_bits_truncate(0o700)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(format!("cannot create {}: {error}", exits_path.display())),
        }
        let exits = open_dir(&exits_path)?;

        // Before memory is charged to a cgroup, and while there is one thread.
        for cgroup in &setup.cgroups {
            place::enter_cgroup(cgroup)?;
        }
        if let Some(score) = setup.oom_score_adj
            && let Err(warning) = place::set_oom_score(score)
        {
            warnings.push(warning);
        }

        let spaces = namespaces::enter(&setup)?;
        if setup.net {
            loopback::bring_up()
                .map_err(|error| format!("cannot bring up the loopback interface: {error}"))?;
            if let Some(pin) = &setup.net_pin {
                // Now, in the daemon's mount namespace, not later in the keeper's own.
                place::pin_network(pin)?;
            }
        }
        if setup.uts && !setup.hostname.is_empty() {
            rustix::system::sethostname(setup.hostname.as_bytes())
                .map_err(|error| format!("cannot set host name {:?}: {error}", setup.hostname))?;
        }
        let parameters = sysctl::set(&setup.sysctls)?;
        let (mut mounts, told) = Mounts::leave(given.few_mounts)?;
        warnings.extend(told);
        let shm = setup.shm.as_ref().map(|shm| {
            let placed = mounts.place(shm.path.clone(), true);
            let placed = placed.map_err(|error| {
                format!("cannot create the mount point for shared memory: {error}")
            })?;
            place::mount_shm(shm, &placed.at)?;
            Ok::<_, String>(placed)
        });
        let shm = shm.transpose()?;
        let init = match spaces.init {
            Some(pid) => Some(pid),
            None if setup.pid => Some(init::spawn(Parent::Caller, mounts.few.is_some())?),
            None => None,
        };
        Ok(Self {
            id: setup.pod_id,
            dir,
            exits,
            init,
            env: environment(setup.env),
            user_ns: spaces.user,
            warnings,
            mounts,
            program: given.program.map(|file| Protected {
                path: setup.program,
                file,
            }),
            shm,
            parameters,
        })
    }

    /// Unlocks the pod's directory, once others can see that a keeper serves it.
    pub(crate) fn unlock(&self) -> io::Result<()> {
        Ok(flock(&self.dir, FlockOperation::Unlock)?)
    }

    /// Returns the keeper's first message, which describes it.
    pub(crate) fn welcome(&self) -> Welcome {
        Welcome {
            version: VERSION,
            pod_id: self.id.clone(),
            pid: getpid().as_raw_pid() as u32,
            init_pid: self.init.map_or(0, |pid| pid.as_raw_pid() as u32),
            warnings: self.warnings.clone(),
            user_ns_fd: self.user_ns.as_ref().map(|fd| fd.as_raw_fd() as u32),
        }
    }

    /// Returns the view of the file system for a runtime that creates a container with these mounts.
    pub(crate) fn view<'a>(
        &'a self,
        mounts: impl Iterator<Item = &'a Placed>,
        cwd: &Path,
        by: By,
    ) -> io::Result<View> {
        View::new(&self.mounts, mounts.chain(&self.shm), cwd, by)
    }

    /// Returns whether the keeper's mount namespace has few mounts.
    pub(crate) fn has_few_mounts(&self) -> bool {
        self.mounts.few.is_some()
    }

    /// Returns the view for a runtime that creates no container, unless the keeper's own view will do.
    pub(crate) fn view_of_host(&self, cwd: &Path) -> io::Result<Option<View>> {
        let few = self.has_few_mounts();
        few.then(|| View::new(&self.mounts, std::iter::empty(), cwd, By::Runtime))
            .transpose()
    }

    /// Returns a path in the pod's directory that is short enough for a socket address, for this process and its
    /// children.
    pub(crate) fn short_path(&self, name: &str) -> PathBuf {
        let pid = getpid().as_raw_pid();
        PathBuf::from(format!("/proc/{pid}/fd/{}/{name}", self.dir.as_raw_fd()))
    }
}

/// Opens the pod's directory and locks it. A process that removes the directory also holds the lock and first checks
/// for a listener. A directory that was removed must not get a keeper.
pub(crate) fn lock_dir(path: &Path) -> Result<OwnedFd, String> {
    let failure = |error| format!("cannot lock directory {}: {error}", path.display());
    let dir = open_dir(path)?;
    flock(&dir, FlockOperation::LockExclusive).map_err(failure)?;
    let (own, named) = (fstat(&dir).map_err(failure)?, stat(path).map_err(failure)?);
    if (own.st_dev, own.st_ino) != (named.st_dev, named.st_ino) {
        return Err(failure(Errno::STALE));
    }
    Ok(dir)
}

fn open_dir(path: &Path) -> Result<OwnedFd, String> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(CWD, path, flags, Mode::empty())
        .map_err(|error| format!("cannot open directory {}: {error}", path.display()))
}

fn environment(mut env: Vec<OsString>) -> Vec<OsString> {
    let has_path = env
        .iter()
        .any(|entry| entry.as_encoded_bytes().starts_with(b"PATH="));
    if !has_path {
        env.push(USUAL_PATH.into());
    }
    env
}
