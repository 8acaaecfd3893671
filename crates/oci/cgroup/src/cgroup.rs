//! A single cgroup: create, enter, remove.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use orlop_fs::{Entry, Step, Walk};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, openat, unlinkat};
use rustix::io::Errno;

use crate::{CgroupPath, Error, Hierarchies};

/// A cgroup, in every hierarchy that controls resources.
///
/// This is only a name: nothing is made or removed with the value.
#[derive(Debug, Clone)]
pub struct Cgroup {
    hierarchies: Arc<Hierarchies>,
    path: CgroupPath,
}

impl Cgroup {
    /// Returns the cgroup with this path.
    pub fn new(hierarchies: Arc<Hierarchies>, path: CgroupPath) -> Self {
        Self { hierarchies, path }
    }

    /// Returns the path.
    pub fn path(&self) -> &CgroupPath {
        &self.path
    }

    /// Returns the hierarchies it is in.
    pub fn hierarchies(&self) -> &Hierarchies {
        &self.hierarchies
    }

    /// Returns the directory with a controller's files, if there is such a controller.
    pub fn directory(&self, controller: &str) -> Option<PathBuf> {
        self.hierarchies.directory(controller, &self.path)
    }

    /// Returns all directories of the cgroup.
    pub fn directories(&self) -> Vec<PathBuf> {
        self.hierarchies.directories(&self.path)
    }

    /// Returns whether it exists in any hierarchy.
    pub fn exists(&self) -> bool {
        self.directories()
            .iter()
            .any(|directory| directory.is_dir())
    }

    /// Returns the names of its direct child cgroups, in any hierarchy.
    pub fn children(&self) -> BTreeSet<String> {
        let entries = self.all_directories().into_iter().flat_map(|directory| {
            let entries = fs::read_dir(directory);
            entries.into_iter().flatten().flatten()
        });
        entries
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect()
    }

    /// Creates it and its missing parents; existing ones stay unchanged.
    ///
    /// With version 2 the controllers are enabled in every parent. With version 1 new cpusets get the CPUs and memory
    /// nodes of their parents, without which no process can run in them.
    pub fn create(&self) -> Result<(), Error> {
        self.create_with(inherit_cpuset)
    }

    /// Creates it without filling new version 1 cpusets. Another process that creates the same cgroup may have filled
    /// them meanwhile.
    pub fn create_directories(&self) -> Result<(), Error> {
        self.create_with(|_| Ok(()))
    }

    fn create_with(&self, fill_cpuset: fn(&Path) -> Result<(), Error>) -> Result<(), Error> {
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
                    fill_cpuset(&directory)?;
                }
            }
        }
        Ok(())
    }

    /// Removes it and all cgroups below it. They must be empty, or become so within `patience`: a killed process leaves
    /// its cgroup with a short delay.
    pub fn remove(&self, patience: Duration) -> Result<(), Error> {
        let deadline = Instant::now() + patience;
        for directory in self.all_directories() {
            remove_tree(&directory, deadline)?;
        }
        Ok(())
    }

    /// Moves a process with all its threads into it.
    ///
    /// With version 1 this waits for a grace period of the kernel, some milliseconds. A process that is about to start
    /// uses an [`Entry`](crate::Entry) instead.
    pub fn attach(&self, pid: i32) -> Result<(), Error> {
        for directory in self.directories() {
            let file = directory.join("cgroup.procs");
            fs::write(&file, pid.to_string()).map_err(Error::io("writing", file))?;
        }
        Ok(())
    }

    /// Returns the directories, including the version 2 tree of a hybrid node. That tree has no limits, but runtimes
    /// make a cgroup there too.
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

    /// Returns the directories from below the mount point down to the cgroup itself.
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
        made => made.map_err(Error::io("creating the cgroup", directory)),
    }
}

/// Enables each controller separately: one may fail because version 1 uses it, or because this cgroup has processes.
/// That must not stop the others. A limit whose file is then missing is a separate error.
fn enable_controllers(directory: &Path) {
    let Ok(available) = orlop_fs::read_kernel_text(directory.join("cgroup.controllers")) else {
        return;
    };
    let file = directory.join("cgroup.subtree_control");
    let enabled = orlop_fs::read_kernel_text(&file).unwrap_or_default();
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
        let text = orlop_fs::read_kernel_text(&own).map_err(Error::io("reading", &own))?;
        if text.trim().is_empty() {
            let from = above.join(name);
            let text = orlop_fs::read_kernel_text(&from).map_err(Error::io("reading", from))?;
            fs::write(&own, text.trim()).map_err(Error::io("writing", own))?;
        }
    }
    Ok(())
}

/// Removes a cgroup and those below it, the deepest first. A container with access to its cgroup may nest others deeper
/// than a path can express.
fn remove_tree(directory: &Path, deadline: Instant) -> Result<(), Error> {
    let failed = |error: Errno| Error::io("removing the cgroup", directory)(error.into());
    // Most cgroups have no children.
    if let Ok(()) | Err(Errno::NOENT) = unlinkat(rustix::fs::CWD, directory, AtFlags::REMOVEDIR) {
        return Ok(());
    }
    let Some(mut walk) = walk(directory)? else {
        return Ok(());
    };
    while let Some(step) = walk.next().map_err(failed)? {
        match step {
            Step::Entry(below) => enter(&mut walk, &below).map_err(failed)?,
            Step::Left(name) => remove_one(walk.here(), &name, deadline).map_err(failed)?,
        }
    }
    drop(walk);
    remove_one(rustix::fs::CWD, directory, deadline).map_err(failed)
}

fn remove_one<P: rustix::path::Arg + Copy>(
    at: BorrowedFd<'_>,
    name: P,
    deadline: Instant,
) -> Result<(), Errno> {
    let mut pause = Duration::from_micros(200);
    loop {
        match unlinkat(at, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::BUSY) if Instant::now() < deadline => {
                thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(50));
            }
            Err(error) => return Err(error),
        }
    }
}

/// Walks through a cgroup and those below it; `None` if the cgroup is gone.
pub(crate) fn walk(directory: &Path) -> Result<Option<Walk>, Error> {
    let opened = File::open(directory).and_then(|top| Ok(Walk::new(top)?));
    match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        walk => walk.map(Some).map_err(Error::io("listing", directory)),
    }
}

/// Enters the current entry of a walk if it is a cgroup that still exists.
pub(crate) fn enter(walk: &mut Walk, entry: &Entry) -> Result<(), Errno> {
    if entry.kind != FileType::Directory {
        return Ok(());
    }
    match walk.enter(&entry.name) {
        Err(Errno::NOENT | Errno::NODEV) => Ok(()),
        entered => entered,
    }
}

/// Writes to a file of a cgroup and all below it. Removed cgroups and those without the file are skipped.
pub(crate) fn write_everywhere(top: &Path, name: &str, value: &str) -> Result<(), Error> {
    let failed = |error: Errno| Error::io("writing to the files of the cgroup", top)(error.into());
    let Some(mut walk) = walk(top)? else {
        return Ok(());
    };
    write_at(walk.here(), name, value).map_err(failed)?;
    while let Some(step) = walk.next().map_err(failed)? {
        let Step::Entry(entry) = step else { continue };
        let depth = walk.depth();
        enter(&mut walk, &entry).map_err(failed)?;
        if walk.depth() > depth {
            write_at(walk.here(), name, value).map_err(failed)?;
        }
    }
    Ok(())
}

fn write_at(at: BorrowedFd<'_>, name: &str, value: &str) -> Result<(), Errno> {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let written = openat(at, name, flags, Mode::empty())
        .and_then(|file| rustix::io::write(&file, value.as_bytes()));
    match written {
        Err(Errno::NOENT | Errno::NODEV) => Ok(()),
        written => written.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cgroups_nested_beyond_any_path_are_listed_and_removed() {
        // Plain directories are enough: only the depth matters.
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().join("pod");
        fs::create_dir(&top).unwrap();
        orlop_testkit::nest(&top, 2100);
        let removed = thread::Builder::new().stack_size(128 << 10).spawn(move || {
            let mut found = std::collections::BTreeSet::new();
            crate::processes::collect(&top, &mut found).unwrap();
            (found.len(), remove_tree(&top, Instant::now()), top.exists())
        });
        let (found, removed, left) = removed.unwrap().join().unwrap();
        assert_eq!(found, 0);
        removed.unwrap();
        assert!(!left);
    }
}
