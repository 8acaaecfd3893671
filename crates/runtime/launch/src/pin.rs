//! Pins of network namespaces in the filesystem.

use std::fs;
use std::io;
use std::path::Path;

use rustix::mount::{UnmountFlags, unmount};

use crate::error::{Error, Result};

/// Removes the file on which a keeper has pinned its network namespace
/// ([`KeeperSpec::net_pin`](crate::KeeperSpec::net_pin)). Succeeds if there is none.
///
/// The pin is a mount in the daemon's mount namespace, so it outlives the keeper.
pub fn remove_pin(path: &Path) -> Result<()> {
    loop {
        match unmount(path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
            // A pin may have several mounts on top of each other.
            Ok(()) => {}
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => break,
            Err(errno) => return Err(failure("unmounting namespace pin", path, errno.into())),
        }
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(failure("removing namespace pin", path, error))
        }
        _ => Ok(()),
    }
}

fn failure(doing: &'static str, path: &Path, source: io::Error) -> Error {
    Error::File {
        doing,
        path: path.to_owned(),
        source,
    }
}
