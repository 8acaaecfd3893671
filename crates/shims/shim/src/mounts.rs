//! A container's files, given to a shim that lives in another mount namespace than we.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use orlop_fs::Mountinfo;
use rustix::fs::CWD;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, UnmountFlags, move_mount, open_tree, unmount};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::error::{Error, Result};

/// The mounts of ours in a directory; those below others go with them.
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

/// Puts copies of mounts of ours into the mount namespace of `pid`, in the same places.
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

/// Undoes mounts in the mount namespace of `pid`. A shim that is dead has taken them along.
pub(crate) fn take_back(mounts: &[PathBuf], pid: u32) -> Result<()> {
    other_namespace(pid).map_or(Ok(()), |theirs| drop_in(theirs.as_ref(), mounts))
}

/// The same where who was given them may be dead, and lived in a mount namespace in which others are,
/// the host's, or our own.
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
    // Most often it lives, and none of the node's other processes is looked at.
    let Some(pid) = shim.into_iter().chain(pids).find(there) else {
        // It has gone, and has taken them along.
        return Ok(());
    };
    drop_in(other_namespace(pid)?.as_ref(), mounts)
}

/// Undoes mounts in another mount namespace, or among the host's where whoever has them lives where we are.
fn drop_in(theirs: Option<&Namespace>, mounts: &[PathBuf]) -> Result<()> {
    let undo = || {
        drop_own(mounts);
        Ok(())
    };
    theirs.map_or_else(undo, |theirs| theirs.visit(undo))
}

/// The name of the mount namespace of a process.
pub(crate) fn namespace_of(pid: u32) -> Result<PathBuf> {
    let path = PathBuf::from(format!("/proc/{pid}/ns/mnt"));
    fs::read_link(&path).map_err(Error::file("reading", &path))
}

/// Undoes mounts in our own mount namespace: a copy that was made for us, or the host's.
pub(crate) fn drop_own(mounts: &[PathBuf]) {
    for path in mounts {
        // One that is not there any more is what is wanted: undone by the shim, or never done.
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
    /// Does something over there. Must not be called where other threads run.
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

/// `None` if it is ours.
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
