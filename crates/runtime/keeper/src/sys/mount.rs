//! Opens files through private mounts.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::CWD;
use rustix::io::{Errno, Result};
use rustix::mount::{OpenTreeFlags, open_tree};

/// Opens a file through a private read-only mount that is in no mount namespace. Root of a user namespace could make a
/// mount in a namespace writable.
pub(crate) fn open_read_only(path: &CStr) -> Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let tree = open_tree(CWD, path, flags)?;
    change(&tree, libc::MOUNT_ATTR_RDONLY, 0)?;
    let flags = OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    open_tree(&tree, c"", flags)
}

fn change(mount: &OwnedFd, set: u64, clear: u64) -> Result<()> {
    // SAFETY: all zeroes is a valid mount_attr, which asks for nothing.
    let mut attr: libc::mount_attr = unsafe { std::mem::zeroed() };
    (attr.attr_set, attr.attr_clr) = (set, clear);
    // SAFETY: the path and the structure, whose size is passed, live across the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            &raw const attr,
            size_of::<libc::mount_attr>(),
        )
    };
    if result == 0 {
        return Ok(());
    }
    // SAFETY: every thread has its errno.
    Err(Errno::from_raw_os_error(unsafe {
        *libc::__errno_location()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_only_cannot_be_made_writable_again() {
        orlop_testkit::skip_unless!(orlop_testkit::machine::is_root());
        let file = open_read_only(c"/proc/self/exe").unwrap();
        let changed = change(&file, 0, libc::MOUNT_ATTR_RDONLY);
        assert_eq!(changed, Err(Errno::INVAL));
    }
}
