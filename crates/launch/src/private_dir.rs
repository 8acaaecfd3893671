//! The directory below which keepers mount what must not show in the host's mount table.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use rustix::mount::{MountPropagationFlags, mount_bind, mount_change};

use crate::error::{Error, Result};

/// Makes `path` a directory whose mounts propagate nowhere: a mount of itself, private. Done once
/// at the daemon's start, before the first keeper; does nothing where it is done already.
///
/// A keeper's mount namespace otherwise remains a peer of the host's. Root file systems, image
/// volumes and `/dev/shm` of pods must lie below such a directory.
pub fn make_private_dir(path: &Path) -> Result<()> {
    let failure = |doing| {
        move |source: io::Error| Error::File {
            doing,
            path: path.to_owned(),
            source,
        }
    };
    DirBuilder::new()
        .recursive(true)
        // The root of a user namespace must be able to walk through it.
        .mode(0o711)
        .create(path)
        .map_err(failure("creating directory"))?;
    let path = fs::canonicalize(path).map_err(failure("resolving directory"))?;
    let table = orlop_disk::read_kernel_text("/proc/self/mountinfo")
        .map_err(failure("reading the mount table to look for"))?;
    if !is_mount_point(&table, &path) {
        mount_bind(&path, &path).map_err(|errno| failure("mounting on itself")(errno.into()))?;
    }
    mount_change(&path, MountPropagationFlags::PRIVATE)
        .map_err(|errno| failure("making private")(errno.into()))
}

fn is_mount_point(table: &str, path: &Path) -> bool {
    // The fifth column, in which blanks and backslashes are written as octal numbers.
    let wanted = path
        .to_string_lossy()
        .replace('\\', "\\134")
        .replace(' ', "\\040")
        .replace('\t', "\\011")
        .replace('\n', "\\012");
    table
        .lines()
        .any(|line| line.split(' ').nth(4) == Some(&wanted))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::is_mount_point;

    #[test]
    fn mount_points_are_found_by_their_whole_path() {
        let table = "1 0 0:1 / / rw - tmpfs t rw\n2 1 0:2 / /a\\040b rw shared:1 - tmpfs t rw\n";
        assert!(is_mount_point(table, Path::new("/a b")));
        assert!(!is_mount_point(table, Path::new("/a")));
    }
}
