//! Operations of the parent in the mount namespace of a new container.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::io::Errno;
use rustix::process::fchdir;

use crate::error::{Result, While};
use crate::mount::name;
use crate::plan::Source;
use crate::report::Step;
use crate::sys::enter_namespaces;

/// Opens the source of a mount as the container's process would find it, with the privileges of the host.
pub(super) fn source(
    source: &Source,
    process: BorrowedFd<'_>,
) -> Result<Result<OwnedFd, (Step, Errno)>> {
    let mounts = libc::CLONE_NEWNS as u64;
    let own = File::open("/proc/self/ns/mnt")
        .doing(|| "cannot open the runtime's own mount namespace".to_owned())?;
    let here =
        name(Path::new(".")).doing(|| "cannot open the runtime's working directory".to_owned())?;
    enter_namespaces(process, mounts)
        .doing(|| "cannot enter the container's mount namespace".to_owned())?;
    let opened = source.open();
    enter_namespaces(own.as_fd(), mounts)
        .and_then(|()| fchdir(&here))
        .doing(|| "cannot return to the runtime's own mount namespace".to_owned())?;
    Ok(opened)
}
