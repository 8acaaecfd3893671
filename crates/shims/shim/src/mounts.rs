//! Mounts of a container for a shim in another mount namespace.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use orlop_fs::Mountinfo;
use rustix::fs::CWD;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, UnmountFlags, move_mount, open_tree, unmount};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::error::{Error, Result};

/// Lists our mounts in a directory; mounts below others are moved with them.
pub(crate) fn within(dir: &Path) -> Result<Vec<PathBuf>> {
    let table = Path::new("/proc/self/mountinfo");
    let mounted = Mountinfo::own().map_err(Error::file("reading", table))?;
    let mut found: Vec<PathBuf> = mounted.points_beneath(dir).collect();
    found.sort();
    let mut tops: Vec<PathBuf> = Vec::new();
    for path in found {
        if tops.last().is_none_or(|top| !path.starts_with(top)) {
            tops.push(path);
        }
    }
    Ok(tops)
}

/// Copies our mounts to the same paths in the mount namespace of `pid`.
pub(crate) fn give(mounts: &[PathBuf], pid: u32) -> Result<()> {
    let Some(theirs) = other_namespace(pid)? else {
        return Ok(());
    };
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    let copies = mounts.iter().map(|path| {
        let copied = open_tree(CWD, path, flags);
        copied.map_err(|errno| Error::file("copying the mount", path)(errno.into()))
    });
    let copies: Vec<_> = copies.collect::<Result<_>>()?;
    theirs.visit(|| {
        for (copy, path) in copies.iter().zip(mounts) {
            let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
            move_mount(copy, "", CWD, path, flags).map_err(|errno| {
                Error::file("bind-mounting in the shim's mount namespace", path)(errno.into())
            })?;
        }
        Ok(())
    })
}

/// Removes mounts in the mount namespace of `pid`. If the shim is dead, its mounts are gone with it.
pub(crate) fn take_back(mounts: &[PathBuf], pid: u32) -> Result<()> {
    other_namespace(pid).map_or(Ok(()), |theirs| drop_in(theirs.as_ref(), mounts))
}

/// Removes mounts from a receiver that may be dead. Its mount namespace may be shared with other processes, or be the
/// host's or our own.
pub(crate) fn take_back_from(
    mounts: &[PathBuf],
    namespace: &Path,
    shim: Option<u32>,
) -> Result<()> {
    if mounts.is_empty() {
        return Ok(());
    }
    let entries = fs::read_dir("/proc").map_err(Error::file("reading", Path::new("/proc")))?;
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let there = |pid: &u32| namespace_of(*pid).is_ok_and(|theirs| theirs == namespace);
    // Usually the receiver is alive, and no other process has to be searched.
    let Some(pid) = shim.into_iter().chain(pids).find(there) else {
        // The namespace is gone, and its mounts with it.
        return Ok(());
    };
    drop_in(other_namespace(pid)?.as_ref(), mounts)
}

/// Removes mounts in another mount namespace, or in the host's if the receiver is in ours.
fn drop_in(theirs: Option<&Namespace>, mounts: &[PathBuf]) -> Result<()> {
    let undo = || {
        drop_own(mounts);
        Ok(())
    };
    theirs.map_or_else(undo, |theirs| theirs.visit(undo))
}

/// Returns the identity of a process's mount namespace.
pub(crate) fn namespace_of(pid: u32) -> Result<PathBuf> {
    let path = PathBuf::from(format!("/proc/{pid}/ns/mnt"));
    fs::read_link(&path).map_err(Error::file("reading", &path))
}

/// Removes mounts in our own mount namespace, which is a copy made for us or the host's.
pub(crate) fn drop_own(mounts: &[PathBuf]) {
    for path in mounts {
        // A missing mount is fine: the shim removed it, or it was never made.
        let _ = unmount(path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
    }
}

/// Moves this process into the mount namespace of `pid`.
pub(crate) fn join(pid: u32) -> Result<()> {
    match other_namespace(pid)? {
        Some(namespace) => enter(&namespace.theirs),
        None => Ok(()),
    }
}

struct Namespace {
    ours: File,
    theirs: File,
}

impl Namespace {
    /// Runs work in the other namespace. Must not be called while other threads run.
    fn visit(&self, work: impl FnOnce() -> Result<()>) -> Result<()> {
        enter(&self.theirs)?;
        let done = work();
        enter(&self.ours)?;
        done
    }
}

fn enter(namespace: &File) -> Result<()> {
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Mount)).map_err(|errno| {
        Error::Io {
            doing: "entering the shim's mount namespace".to_owned(),
            source: errno.into(),
        }
    })
}

/// Opens the mount namespace of a process; `None` if it is ours.
fn other_namespace(pid: u32) -> Result<Option<Namespace>> {
    let open = |path: &Path| File::open(path).map_err(Error::file("opening", path));
    let link = |path: &Path| fs::read_link(path).map_err(Error::file("reading", path));
    let ours = Path::new("/proc/self/ns/mnt");
    let theirs = PathBuf::from(format!("/proc/{pid}/ns/mnt"));
    if link(ours)? == link(&theirs)? {
        return Ok(None);
    }
    Ok(Some(Namespace {
        ours: open(ours)?,
        theirs: open(&theirs)?,
    }))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use rustix::mount::{MountFlags, mount};

    use super::*;

    #[test]
    fn mounts_of_a_shim_that_lives_where_we_are_are_taken_back() {
        orlop_testkit::skip_unless!(orlop_testkit::machine::is_root());
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("place");
        fs::create_dir(&place).unwrap();
        mount("tmpfs", &place, "tmpfs", MountFlags::empty(), None).unwrap();
        let device = |path: &Path| fs::metadata(path).unwrap().dev();
        assert_ne!(device(&place), device(dir.path()));
        take_back(std::slice::from_ref(&place), std::process::id()).unwrap();
        let is_undone = device(&place) == device(dir.path());
        drop_own(&[place]);
        assert!(is_undone);
    }
}
