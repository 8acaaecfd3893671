//! Sets owner, mode, extended attributes and time of unpacked files. The order matters: a change of owner clears
//! setuid bits and capabilities.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};

use rustix::fs::{
    AtFlags, Gid, Mode, Timespec, Timestamps, UTIME_OMIT, Uid, XattrFlags, chmodat, chownat,
    fchmod, fchown, fsetxattr, futimens, lsetxattr, utimensat,
};
use rustix::io::{Errno, Result};

use crate::tar::{Entry, EntryKind, Mtime};

/// Sets all attributes of an open regular file.
pub(super) fn set_on_file(file: &File, entry: &Entry) -> Result<()> {
    fchown(
        file,
        Some(Uid::from_raw(entry.uid)),
        Some(Gid::from_raw(entry.gid)),
    )?;
    fchmod(file, Mode::from_raw_mode(entry.mode))?;
    for (name, value) in wanted(&entry.xattrs) {
        tolerate(name, fsetxattr(file, name, value, XattrFlags::empty()))?;
    }
    futimens(file, &times(entry.mtime))
}

/// Sets all attributes of `name` in `dir`, without following links. Skips the time of a directory, which its children
/// would change.
pub(super) fn set_at(dir: impl AsFd, name: &[u8], entry: &Entry) -> Result<()> {
    let dir = dir.as_fd();
    let owner = (
        Some(Uid::from_raw(entry.uid)),
        Some(Gid::from_raw(entry.gid)),
    );
    chownat(dir, name, owner.0, owner.1, AtFlags::SYMLINK_NOFOLLOW)?;
    let is_link = matches!(entry.kind, EntryKind::Symlink(_));
    if !is_link {
        // Not a link, so `chmodat` cannot follow one.
        chmodat(dir, name, Mode::from_raw_mode(entry.mode), AtFlags::empty())?;
    }
    if !entry.xattrs.is_empty() {
        let path = through_fd(dir, name);
        for (name, value) in wanted(&entry.xattrs) {
            let done = lsetxattr(&*path, name, value, XattrFlags::empty());
            // Links and special files cannot have `user.` attributes.
            if done != Err(Errno::PERM) || matches!(entry.kind, EntryKind::Directory) {
                tolerate(name, done)?;
            }
        }
    }
    if !matches!(entry.kind, EntryKind::Directory) {
        set_mtime(dir, name, entry.mtime)?;
    }
    Ok(())
}

/// Sets the modification time of `name` in `dir`, without following links.
pub(super) fn set_mtime(dir: impl AsFd, name: &[u8], mtime: Mtime) -> Result<()> {
    utimensat(dir, name, &times(mtime), AtFlags::SYMLINK_NOFOLLOW)
}

/// Marks the directory `name` in `dir` as opaque: it hides its content in lower layers.
pub(super) fn set_opaque(dir: impl AsFd, name: &[u8]) -> Result<()> {
    lsetxattr(
        &*through_fd(dir.as_fd(), name),
        "trusted.overlay.opaque",
        b"y",
        XattrFlags::empty(),
    )
}

/// Selects the attributes that an image may set. Excludes `trusted.*`, which controls overlayfs, and security labels,
/// which the host sets.
pub(super) fn wanted(xattrs: &[(Vec<u8>, Vec<u8>)]) -> impl Iterator<Item = (&[u8], &[u8])> {
    xattrs
        .iter()
        .map(|(name, value)| (&name[..], &value[..]))
        .filter(|(name, _)| is_wanted(name))
}

pub(super) fn is_wanted(name: &[u8]) -> bool {
    let user = name.starts_with(b"user.") && !name.starts_with(b"user.overlay.");
    user || matches!(
        name,
        b"security.capability"
            | b"security.ima"
            | b"system.posix_acl_access"
            | b"system.posix_acl_default"
    )
}

/// Ignores missing support for extended attributes, because the image is still usable.
fn tolerate(name: &[u8], done: Result<()>) -> Result<()> {
    match done {
        Err(Errno::OPNOTSUPP) => {
            tracing::debug!(
                attribute = %String::from_utf8_lossy(name),
                "skipped an extended attribute that the file system does not support"
            );
            Ok(())
        }
        done => done,
    }
}

/// Returns a path to `name` through the descriptor of `dir`, because there is no `lsetxattrat`.
fn through_fd(dir: impl AsFd, name: &[u8]) -> Vec<u8> {
    let mut path = format!("/proc/self/fd/{}/", dir.as_fd().as_raw_fd()).into_bytes();
    path.extend_from_slice(name);
    path
}

fn times(mtime: Mtime) -> Timestamps {
    Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        },
        last_modification: Timespec {
            tv_sec: mtime.seconds,
            tv_nsec: mtime.nanoseconds.into(),
        },
    }
}
