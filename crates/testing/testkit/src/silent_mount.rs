//! A filesystem that never responds: every access blocks in the kernel, as with a file server that is gone.

use std::ffi::CString;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

/// A mounted filesystem. Dropping it unmounts it, and pending accesses fail.
#[derive(Debug)]
pub struct SilentMount {
    point: PathBuf,
    /// FUSE connection with the pending requests. Closing it aborts them.
    connection: Option<OwnedFd>,
}

impl SilentMount {
    /// Mounts the filesystem on a directory; returns an error if this machine has no FUSE.
    pub fn on(point: &Path) -> Result<Self, String> {
        let cannot = |error| format!("no file system of a program's own can be mounted: {error}");
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let connection = open("/dev/fuse", flags, Mode::empty()).map_err(cannot)?;
        let options = format!(
            "fd={},rootmode=40000,user_id=0,group_id=0",
            connection.as_raw_fd()
        );
        let options = CString::new(options).expect("no NUL");
        let flags = MountFlags::NODEV | MountFlags::NOSUID;
        mount("silent", point, "fuse", flags, options.as_c_str()).map_err(cannot)?;
        Ok(Self {
            point: point.to_owned(),
            connection: Some(connection),
        })
    }
}

impl Drop for SilentMount {
    fn drop(&mut self) {
        drop(self.connection.take());
        if let Err(error) = unmount(&self.point, UnmountFlags::DETACH) {
            eprintln!("testkit: unmounting {}: {error}", self.point.display());
        }
    }
}
