//! Creates file systems for a container.

use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_flag,
    fsconfig_set_string, fsmount, fsopen,
};

use crate::plan::Fresh;

/// Creates a detached file system.
pub(super) fn make_fresh(fresh: &Fresh) -> rustix::io::Result<OwnedFd> {
    make_fresh_with(fresh, None)
}

/// Creates a detached file system whose root has this mode.
pub(super) fn make_fresh_with(fresh: &Fresh, mode: Option<u32>) -> rustix::io::Result<OwnedFd> {
    make_file_system(&fresh.kind, &fresh.data, mode, fresh.attr)
}

pub(super) fn make_file_system(
    kind: &CStr,
    data: &[(std::ffi::CString, Option<std::ffi::CString>)],
    mode: Option<u32>,
    attr: u32,
) -> rustix::io::Result<OwnedFd> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in data {
        match value {
            Some(value) => fsconfig_set_string(context.as_fd(), key.as_c_str(), value.as_c_str())?,
            None => fsconfig_set_flag(context.as_fd(), key.as_c_str())?,
        }
    }
    if let Some(mode) = mode {
        let mut text = [0u8; 5];
        for (digit, shift) in text.iter_mut().zip([9, 6, 3, 0]) {
            *digit = b'0' + (mode >> shift & 7) as u8;
        }
        let text = CStr::from_bytes_with_nul(&text).map_err(|_| Errno::INVAL)?;
        fsconfig_set_string(context.as_fd(), c"mode", text)?;
    }
    fsconfig_create(context.as_fd())?;
    let attr = MountAttrFlags::from_bits_retain(attr);
    fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attr)
}

/// Creates a `/proc` with processes only.
pub(super) fn own_proc_of_processes() -> rustix::io::Result<OwnedFd> {
    let context = fsopen(c"proc", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(context.as_fd(), c"subset", c"pid")?;
    fsconfig_create(context.as_fd())?;
    let (flags, none) = (FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty());
    fsmount(context.as_fd(), flags, none)
}

/// Creates a private `/proc` without mounts in it.
pub(super) fn own_proc() -> rustix::io::Result<OwnedFd> {
    make_file_system(c"proc", &[], None, 0)
}
