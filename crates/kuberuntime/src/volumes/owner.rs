use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, lchown};
use std::path::Path;

use super::VolumeError;

/// Whose files a volume's are: `fsGroup`, if the pod has one.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Ownership {
    /// The group.
    pub(super) group: Option<u32>,
    /// The group may read, and not write.
    pub(super) read_only: bool,
    /// Leave a volume alone whose top is right already.
    pub(super) on_mismatch_only: bool,
}

impl Ownership {
    /// Gives all files beneath `dir` (and itself) to the group. Links are changed, not followed.
    pub(super) fn apply(self, dir: &Path) -> Result<(), VolumeError> {
        let Some(group) = self.group else {
            return Ok(());
        };
        if self.on_mismatch_only
            && fs::metadata(dir).is_ok_and(|m| m.gid() == group && m.mode() & 0o2070 == 0o2070)
        {
            return Ok(());
        }
        self.one(dir, group)
    }

    fn one(self, path: &Path, group: u32) -> Result<(), VolumeError> {
        let fail = |source| VolumeError::io("giving to the pod's fsGroup", path, source);
        let meta = fs::symlink_metadata(path).map_err(fail)?;
        lchown(path, None, Some(group)).map_err(fail)?;
        if meta.is_symlink() {
            return Ok(());
        }
        let mut rights = if self.read_only { 0o440 } else { 0o660 };
        if meta.is_dir() {
            rights |= 0o2110;
        }
        let mode = (meta.mode() | rights) & 0o7777;
        fs::set_permissions(path, Permissions::from_mode(mode)).map_err(fail)?;
        if meta.is_dir() {
            for entry in fs::read_dir(path).map_err(fail)? {
                self.one(&entry.map_err(fail)?.path(), group)?;
            }
        }
        Ok(())
    }
}
