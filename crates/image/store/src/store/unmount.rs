//! Unmounts layers.

use std::fs;
use std::io;
use std::path::Path;

use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

use crate::{Digest, Error, Result};

/// Unmounts all layers except those that `keep` selects. Blocks.
pub(super) fn sweep(mounts: &Path, keep: impl Fn(&Digest) -> bool) -> Result<()> {
    let failed = |error| Error::at("listing", mounts, error);
    for entry in fs::read_dir(mounts).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let key = Digest::from_hex(&entry.file_name().to_string_lossy());
        if !key.is_ok_and(|key| keep(&key)) {
            leave(&entry.path())?;
        }
    }
    Ok(())
}

/// Unmounts everything at a directory, then removes the directory.
pub(super) fn leave(dir: &Path) -> Result<()> {
    let failed = |error| Error::at("unmounting", dir, error);
    loop {
        match unmount(dir, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
            // Several mounts may be stacked.
            Ok(()) => {}
            Err(Errno::INVAL | Errno::NOENT) => break,
            Err(error) => return Err(failed(error.into())),
        }
    }
    match fs::remove_dir(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(error)),
        _ => Ok(()),
    }
}
