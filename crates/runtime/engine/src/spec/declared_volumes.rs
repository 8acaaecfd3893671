//! Volumes that an image declares: each is a directory that starts with the image's content.

use std::fs::{self, File};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;

use super::Error;
use super::clean_path::clean;
use super::input::SpecInput;
use super::volume_copy::Copy;

const FIELD: &str = "the image's VOLUME";

/// A volume ready to be mounted.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Volume {
    /// Path in the container.
    pub(super) destination: String,
    /// The directory of the volume's files on the node.
    pub(super) directory: PathBuf,
}

/// Makes the directories of the volumes that no mount of the request replaces.
///
/// An existing directory is from an earlier attempt and is made again.
pub(super) fn prepare(input: &SpecInput<'_>, replaced: &[String]) -> Result<Vec<Volume>, Error> {
    let mut volumes: Vec<Volume> = Vec::new();
    for declared in input.known.image.volumes {
        let destination = clean(declared);
        let known = volumes
            .iter()
            .any(|volume| volume.destination == destination);
        if destination == "/" || known || replaced.contains(&destination) {
            continue;
        }
        let directory = input.volumes_dir.join(volumes.len().to_string());
        let mut copy = Copy::new(input.abandoned);
        make(input.rootfs.dir, &destination, &directory, &mut copy).map_err(|error| {
            Error::io(FIELD, format!("preparing the volume {destination}"), error)
        })?;
        volumes.push(Volume {
            destination,
            directory,
        });
    }
    Ok(volumes)
}

fn make(
    rootfs: BorrowedFd<'_>,
    destination: &str,
    directory: &Path,
    copy: &mut Copy<'_>,
) -> io::Result<()> {
    orlop_fs::remove_tree(directory)?;
    fs::create_dir_all(directory)?;
    let to = OwnedFd::from(File::open(directory)?);
    let from = openat2(
        rootfs,
        destination,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS,
    );
    match from {
        Ok(from) => copy.directory(&from, &to),
        // The image has no directory there: the volume starts empty.
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    fn copied(fill: impl FnOnce(&Path)) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        fs::create_dir_all(root.join("data")).unwrap();
        fill(&root);
        let volume = dir.path().join("volumes/0");
        let root = File::open(&root).unwrap();
        make(root.as_fd(), "/data", &volume, &mut Copy::new(&|| false)).unwrap();
        (dir, volume)
    }

    #[test]
    fn a_volume_starts_with_what_the_image_has_there() {
        let (_dir, volume) = copied(|root| {
            fs::create_dir(root.join("data/sub")).unwrap();
            fs::write(root.join("data/sub/file"), "text").unwrap();
            let mode = fs::Permissions::from_mode(0o4755);
            fs::set_permissions(root.join("data/sub/file"), mode).unwrap();
            std::os::unix::fs::chown(root.join("data"), Some(33), Some(34)).unwrap();
            fs::set_permissions(root.join("data"), fs::Permissions::from_mode(0o1770)).unwrap();
            symlink("/etc/passwd", root.join("data/link")).unwrap();
        });
        assert_eq!(fs::read_to_string(volume.join("sub/file")).unwrap(), "text");
        assert_eq!(
            fs::metadata(volume.join("sub/file")).unwrap().mode() & 0o7777,
            0o4755
        );
        assert_eq!(
            fs::read_link(volume.join("link")).unwrap(),
            Path::new("/etc/passwd")
        );
        let own = fs::metadata(&volume).unwrap();
        assert_eq!(
            (own.uid(), own.gid(), own.mode() & 0o7777),
            (33, 34, 0o1770)
        );
    }

    #[test]
    fn a_link_in_place_of_the_volume_leads_nowhere_outside() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), "").unwrap();
        let (_dir, volume) = copied(|root| {
            fs::remove_dir(root.join("data")).unwrap();
            symlink(outside.path(), root.join("data")).unwrap();
        });
        assert_eq!(fs::read_dir(&volume).unwrap().count(), 0);
    }

    #[test]
    fn a_second_try_starts_anew() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("v")).unwrap();
        fs::write(dir.path().join("v/leftover"), "").unwrap();
        let root = File::open(dir.path()).unwrap();
        let volume = dir.path().join("v");
        make(root.as_fd(), "/nothing", &volume, &mut Copy::new(&|| false)).unwrap();
        assert!(!dir.path().join("v/leftover").exists());
    }
}
