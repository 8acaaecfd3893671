//! Protects this program from containers. A container may trick the kernel into executing `/proc/self/exe` in our
//! place, and then hold the program's file. That file must not be writable.

use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;

use orlop_fs::detached_read_only;
use rustix::fs::{
    MemfdFlags, SealFlags, StatVfsMountFlags, fcntl_add_seals, fcntl_get_seals, memfd_create,
    statvfs,
};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};

use crate::error::{Error, Result, While};
use crate::sys::{Image, execute_fd};

const SELF: &str = "/proc/self/exe";

/// Set in a protected copy: no further copy is needed.
pub(crate) const MARK: &str = "_ORLOP_RUN_PROTECTED";

/// Makes this process impossible to inspect or write to from containers. If the program's file could be written,
/// continues in a copy of it.
pub(crate) fn protect() -> Result<()> {
    may_be_looked_into(false).doing(|| "cannot make this process non-dumpable".to_owned())?;
    if is_safe() {
        return Ok(());
    }
    if std::env::var_os(MARK).is_some() {
        return Err(Error::new(
            "the executable of this program is writable, and a protected copy of it is not available",
        ));
    }
    let copy = read_only_mount().or_else(|_| sealed_copy())?;
    let c = |text: std::ffi::OsString| {
        CString::new(text.into_vec()).doing(|| "cannot copy the command line".to_owned())
    };
    let args = std::env::args_os().map(c).collect::<Result<_>>()?;
    let env = std::env::vars_os()
        .map(|(mut name, value)| {
            name.push("=");
            name.push(value);
            c(name)
        })
        .chain([c(format!("{MARK}=1").into())])
        .collect::<Result<_>>()?;
    let failed = execute_fd(copy.as_fd(), &Image::new(args), &Image::new(env));
    Err(Error::new(format!(
        "cannot execute a protected copy of this program: {failed}"
    )))
}

/// Sets whether this process and its children are dumpable, so that their user may inspect them.
pub(crate) fn may_be_looked_into(may: bool) -> rustix::io::Result<()> {
    set_dumpable_behavior(if may {
        DumpableBehavior::Dumpable
    } else {
        DumpableBehavior::NotDumpable
    })
}

/// Returns whether the executed file is protected against writes.
fn is_safe() -> bool {
    let read_only = statvfs(SELF).is_ok_and(|fs| fs.f_flag.contains(StatVfsMountFlags::RDONLY));
    read_only
        || std::fs::File::open(SELF).is_ok_and(|file| {
            let seals = fcntl_get_seals(&file);
            seals.is_ok_and(|seals| seals.contains(SealFlags::WRITE))
        })
}

/// Opens the file through a private read-only mount.
fn read_only_mount() -> Result<OwnedFd> {
    let told = || "cannot create a read-only mount of this program".to_owned();
    detached_read_only(SELF).doing(told)
}

/// Copies the file to sealed memory: for callers who may not mount.
fn sealed_copy() -> Result<OwnedFd> {
    let told = || "cannot create a sealed copy of this program".to_owned();
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let copy = memfd_create("orlop-run", flags).doing(told)?;
    let program = std::fs::File::open(SELF).doing(told)?;
    while rustix::fs::sendfile(&copy, &program, None, 1 << 30).doing(told)? > 0 {}
    let all = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    fcntl_add_seals(&copy, all).doing(told)?;
    debug_assert!(copy.as_raw_fd() > 2);
    Ok(copy)
}
