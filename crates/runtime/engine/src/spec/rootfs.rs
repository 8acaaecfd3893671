//! Checks of an image's root filesystem at the runtime's mount points.

use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, FileType, statat};
use rustix::io::Errno;

use super::Error;

/// Directories where runtimes mount, and then make links and devices by path.
const MOUNT_POINTS: [&str; 3] = ["dev", "proc", "sys"];

/// Refuses an image that has anything but a directory there.
///
/// If an image has a link in the place of `/dev`, runc up to 1.1 makes `/dev/fd`, `/dev/ptmx` and others
/// through that link. At that moment it leads into the node's file system, so runc would create and replace
/// files wherever the image says.
pub(super) fn check(rootfs: BorrowedFd<'_>) -> Result<(), Error> {
    const FIELD: &str = "config.image";
    for name in MOUNT_POINTS {
        let kind = match statat(rootfs, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => FileType::from_raw_mode(found.st_mode),
            Err(Errno::NOENT) => continue,
            Err(error) => return Err(Error::io(FIELD, format!("inspecting /{name}"), error)),
        };
        if kind != FileType::Directory {
            let problem = format!("/{name} in the image is not a directory");
            return Err(Error::unmet(FIELD, problem));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::fd::AsFd;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_directories_are_mounted_on() {
        let dir = tempfile::tempdir().unwrap();
        let root = File::open(dir.path()).unwrap();
        assert!(check(root.as_fd()).is_ok(), "what is missing is made");
        fs::create_dir(dir.path().join("dev")).unwrap();
        assert!(check(root.as_fd()).is_ok());
        symlink("dev", dir.path().join("proc")).unwrap();
        let refused = check(root.as_fd()).unwrap_err().to_string();
        assert!(refused.contains("/proc"), "{refused}");
    }
}
