//! The directory and the mount point, which only one server uses at a time.

use std::fs::DirBuilder;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::time::{Duration, Instant};

use orlop_fs::{Mountinfo, read_kernel_file};
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

/// Timeout for the exit of a predecessor.
const PREDECESSOR_LIMIT: Duration = Duration::from_secs(5);

/// Locks the directory. Waits until the predecessor has exited, because only one server may use it.
pub(crate) fn lock(directory: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let locked = open(directory, flags, Mode::empty())?;
    let deadline = Instant::now() + PREDECESSOR_LIMIT;
    loop {
        match flock(&locked, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(locked),
            Err(Errno::AGAIN) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(2));
            }
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Creates the mount point, and detaches the mounts of earlier sessions. It does not access them, because they may be
/// dead. The caller must hold the lock.
pub(crate) fn make_way(mount_point: &Path) -> io::Result<()> {
    let table = Mountinfo::from_text(read_kernel_file("/proc/thread-self/mountinfo")?);
    let there = table
        .mounts()
        .filter(|mount| mount.point() == mount_point && mount.kind().starts_with("fuse"));
    for _ in there {
        unmount(mount_point, UnmountFlags::DETACH)?;
    }
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(mount_point)
}
