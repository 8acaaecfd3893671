//! Files by mounts of their own.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::CWD;
use rustix::io::{Errno, Result};
use rustix::mount::{OpenTreeFlags, open_tree};

/// Opens a file by a mount that nobody else has, and by which nobody can write to it.
pub(crate) fn open_read_only(path: &CStr) -> Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let tree = open_tree(CWD, path, flags)?;
    // SAFETY: all zeroes is a valid mount_attr, which asks for nothing.
    let mut attr: libc::mount_attr = unsafe { std::mem::zeroed() };
    attr.attr_set = libc::MOUNT_ATTR_RDONLY;
    // SAFETY: the path and the structure, whose size is told, live across the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            &raw const attr,
            size_of::<libc::mount_attr>(),
        )
    };
    if result == 0 {
        return Ok(tree);
    }
    // SAFETY: every thread has its errno.
    Err(Errno::from_raw_os_error(unsafe {
        *libc::__errno_location()
    }))
}
