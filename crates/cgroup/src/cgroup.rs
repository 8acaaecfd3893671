//! One cgroup: made, entered, removed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::{CgroupPath, Error, Hierarchies};

/// A cgroup, in every hierarchy that governs resources.
///
/// This is only a name: nothing is made or removed with the value.
#[derive(Debug, Clone)]
pub struct Cgroup {
    hierarchies: Arc<Hierarchies>,
    path: CgroupPath,
}

impl Cgroup {
    /// The cgroup of this path.
    pub fn new(hierarchies: Arc<Hierarchies>, path: CgroupPath) -> Self {
        Self { hierarchies, path }
    }

    /// Where it is.
    pub fn path(&self) -> &CgroupPath {
        &self.path
    }

    /// The hierarchies it is in.
    pub fn hierarchies(&self) -> &Hierarchies {
        &self.hierarchies
    }

    /// The directory with a controller's files, if there is such a controller.
    pub fn directory(&self, controller: &str) -> Option<PathBuf> {
        self.hierarchies.directory(controller, &self.path)
    }

    /// All its directories.
    pub fn directories(&self) -> Vec<PathBuf> {
        self.hierarchies.directories(&self.path)
    }

    /// Whether it is there in any hierarchy.
    pub fn exists(&self) -> bool {
        self.directories()
            .iter()
            .any(|directory| directory.is_dir())
    }

    /// Makes it and what lies above it; what is there already stays as it is.
    ///
    /// With version 2 the controllers are switched on all the way down, with version 1 new cpusets
    /// get the CPUs and memory nodes of the ones above, without which nothing could run in them.
    pub fn create(&self) -> Result<(), Error> {
        if self.hierarchies.is_v2() {
            let Some(mount) = self.hierarchies.v2_mount() else {
                return Err(Error::NotMounted);
            };
            return self.create_v2(mount);
        }
        let cpuset = self.hierarchies.directory("cpuset", &CgroupPath::root());
        for mount in self.hierarchies.directories(&CgroupPath::root()) {
            for directory in self.steps(&mount) {
                make(&directory)?;
                if Some(&mount) == cpuset.as_ref() {
                    inherit_cpuset(&directory)?;
                }
            }
        }
        Ok(())
    }

    /// Removes it and all cgroups below it. They must be empty, or become so before the patience
    /// ends: a process that was killed leaves its cgroup only a moment later.
    pub fn remove(&self, patience: Duration) -> Result<(), Error> {
        let deadline = Instant::now() + patience;
        for directory in self.all_directories() {
            remove_tree(&directory, deadline)?;
        }
        Ok(())
    }

    /// Moves a process with all its threads into it.
    ///
    /// With version 1 this waits for a grace period of the kernel, some milliseconds; a process
    /// that is about to start enters by an [`Entry`](crate::Entry) instead.
    pub fn attach(&self, pid: i32) -> Result<(), Error> {
        for directory in self.directories() {
            let file = directory.join("cgroup.procs");
            fs::write(&file, pid.to_string()).map_err(Error::io("writing", file))?;
        }
        Ok(())
    }

    /// Its directories, also in the version 2 tree of a hybrid node, in which no limit is set but
    /// runtimes make a cgroup all the same.
    pub(crate) fn all_directories(&self) -> Vec<PathBuf> {
        let mut all = self.directories();
        if let Some(mount) = self.hierarchies.v2_mount() {
            let unified = self.path.below(mount);
            if !all.contains(&unified) {
                all.push(unified);
            }
        }
        all
    }

    fn create_v2(&self, mount: &Path) -> Result<(), Error> {
        let mut above = mount.to_path_buf();
        for directory in self.steps(mount) {
            enable_controllers(&above);
            make(&directory)?;
            above = directory;
        }
        Ok(())
    }

    /// The directories from below the mount down to the cgroup itself.
    fn steps(&self, mount: &Path) -> Vec<PathBuf> {
        let mut steps = Vec::new();
        let mut at = Some(self.path.clone());
        while let Some(path) = at.filter(|path| !path.is_root()) {
            steps.push(path.below(mount));
            at = path.parent();
        }
        steps.reverse();
        steps
    }
}

fn make(directory: &Path) -> Result<(), Error> {
    match fs::create_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made.map_err(Error::io("making the cgroup", directory)),
    }
}

/// Each on its own, since one that cannot be switched on here (held by version 1, or in use by
/// processes of this very cgroup) must not keep the others off. A limit that then has no file to
/// be written to is an error of its own.
fn enable_controllers(directory: &Path) {
    let Ok(available) = fs::read_to_string(directory.join("cgroup.controllers")) else {
        return;
    };
    let file = directory.join("cgroup.subtree_control");
    let enabled = fs::read_to_string(&file).unwrap_or_default();
    for controller in available.split_whitespace() {
        if !enabled.split_whitespace().any(|own| own == controller) {
            let _ = fs::write(&file, format!("+{controller}"));
        }
    }
}

fn inherit_cpuset(directory: &Path) -> Result<(), Error> {
    let Some(above) = directory.parent() else {
        return Ok(());
    };
    for name in ["cpuset.cpus", "cpuset.mems"] {
        let own = directory.join(name);
        let text = fs::read_to_string(&own).map_err(Error::io("reading", &own))?;
        if text.trim().is_empty() {
            let from = above.join(name);
            let text = fs::read_to_string(&from).map_err(Error::io("reading", from))?;
            fs::write(&own, text.trim()).map_err(Error::io("writing", own))?;
        }
    }
    Ok(())
}

fn remove_tree(directory: &Path, deadline: Instant) -> Result<(), Error> {
    for below in children(directory)? {
        remove_tree(&below, deadline)?;
    }
    let mut pause = Duration::from_micros(200);
    loop {
        match fs::remove_dir(directory) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error)
                if error.raw_os_error() == Some(libc::EBUSY) && Instant::now() < deadline =>
            {
                thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(50));
            }
            Err(error) => return Err(Error::io("removing the cgroup", directory)(error)),
        }
    }
}

/// The cgroups directly below; none if the cgroup itself is gone.
pub(crate) fn children(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(Error::io("listing", directory))?,
    };
    let directories = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    Ok(directories.map(|entry| entry.path()).collect())
}
