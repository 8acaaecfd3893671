//! Group ownership of volumes (`fsGroup`).

use std::ffi::CStr;
use std::fs;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use orlop_fs::{Step, Walk};
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, chmodat, chownat, open, statat};
use rustix::io::Errno;

use super::VolumeError;

/// Group ownership of a volume: `fsGroup`, if the pod has one.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Ownership {
    /// The group.
    pub(super) group: Option<u32>,
    /// The group may read but not write.
    pub(super) read_only: bool,
    /// Skip a volume whose top directory is already correct.
    pub(super) on_mismatch_only: bool,
}

impl Ownership {
    /// Gives `dir` and everything beneath it to the group. Links are changed, not followed.
    pub(super) fn apply(self, dir: &Path) -> Result<(), VolumeError> {
        let Some(group) = self.group else {
            return Ok(());
        };
        if self.on_mismatch_only
            && fs::metadata(dir).is_ok_and(|m| m.gid() == group && m.mode() & 0o2070 == 0o2070)
        {
            return Ok(());
        }
        let fail = |source| VolumeError::io("set the pod's fsGroup on", dir, source);
        self.all(dir, group).map_err(|errno| fail(errno.into()))
    }

    /// Iterates instead of recursing, because the pod controls the depth.
    fn all(self, dir: &Path, group: u32) -> Result<(), Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let top = open(dir, flags, Mode::empty())?;
        self.one(top.as_fd(), c".", group)?;
        let mut walk = Walk::new(&top)?;
        while let Some(step) = walk.next()? {
            let Step::Entry(entry) = step else { continue };
            if self.one(walk.here(), &entry.name, group)? == FileType::Directory {
                walk.enter(&entry.name)?;
            }
        }
        Ok(())
    }

    fn one(self, at: BorrowedFd<'_>, name: &CStr, group: u32) -> Result<FileType, Errno> {
        let stat = statat(at, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        let group = Some(Gid::from_raw(group));
        chownat(at, name, None, group, AtFlags::SYMLINK_NOFOLLOW)?;
        if kind == FileType::Symlink {
            return Ok(kind);
        }
        let mut rights = if self.read_only { 0o440 } else { 0o660 };
        if kind == FileType::Directory {
            rights |= 0o2110;
        }
        let mode = Mode::from_raw_mode((stat.st_mode | rights) & 0o7777);
        chmodat(at, name, mode, AtFlags::empty())?;
        Ok(kind)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_group_gets_what_is_deeper_than_any_path_and_links_stay_links() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let outside = dir.path().join("outside");
        fs::write(&outside, "").unwrap();
        fs::set_permissions(&outside, Permissions::from_mode(0o600)).unwrap();
        let top = dir.path().join("top");
        fs::create_dir(&top).unwrap();
        std::os::unix::fs::symlink(&outside, top.join("link")).unwrap();
        let innermost = orlop_testkit::nest(&top, 6_000);
        let given = Ownership {
            group: Some(4321),
            ..Ownership::default()
        };
        let at = top.clone();
        let applied = std::thread::Builder::new()
            .stack_size(128 << 10)
            .spawn(move || given.apply(&at));
        applied.unwrap().join().unwrap().unwrap();
        let deepest = rustix::fs::fstat(&innermost).unwrap();
        assert_eq!((deepest.st_gid, deepest.st_mode & 0o7777), (4321, 0o2770));
        assert_eq!(fs::metadata(&top).unwrap().gid(), 4321);
        assert_eq!(fs::symlink_metadata(top.join("link")).unwrap().gid(), 4321);
        let outside = fs::metadata(&outside).unwrap();
        assert_eq!((outside.gid(), outside.mode() & 0o7777), (0, 0o600));
        orlop_fs::remove_tree(&dir.keep()).unwrap();
    }
}
