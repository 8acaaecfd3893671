//! Volumes an image declares: a directory for each, holding at first what the image has there.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, Dir, FileType, Gid, Mode, OFlags, ResolveFlags, Stat, Timespec, Timestamps, Uid,
    XattrFlags, chownat, fchmod, fchown, fgetxattr, flistxattr, fsetxattr, fstat, mkdirat, mknodat,
    openat, openat2, readlinkat, statat, symlinkat, utimensat,
};
use rustix::io::Errno;

use super::Error;
use super::input::SpecInput;
use super::mounts::clean;

const FIELD: &str = "the image's VOLUME";

/// Deeper trees in an image are not copied.
const MAX_DEPTH: usize = 256;

/// A volume ready to be mounted.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Volume {
    /// Path in the container.
    pub(super) destination: String,
    /// Its files on the node.
    pub(super) directory: PathBuf,
}

/// Makes the directories of the volumes which no mount of the request replaces.
///
/// One that is there already was made by an earlier try and is made anew.
pub(super) fn prepare(input: &SpecInput<'_>, replaced: &[String]) -> Result<Vec<Volume>, Error> {
    let mut volumes: Vec<Volume> = Vec::new();
    for declared in input.image.volumes {
        let destination = clean(declared);
        let known = volumes
            .iter()
            .any(|volume| volume.destination == destination);
        if destination == "/" || known || replaced.contains(&destination) {
            continue;
        }
        let directory = input.volumes_dir.join(volumes.len().to_string());
        make(input.rootfs.dir, &destination, &directory).map_err(|error| {
            Error::io(FIELD, format!("preparing the volume {destination}"), error)
        })?;
        volumes.push(Volume {
            destination,
            directory,
        });
    }
    Ok(volumes)
}

fn make(rootfs: BorrowedFd<'_>, destination: &str, directory: &Path) -> io::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
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
        Ok(from) => copy_directory(&from, &to, 0),
        // The image has nothing there, or no directory: the volume starts empty.
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Copies what a directory holds, then its own owner, mode and times.
fn copy_directory(from: &OwnedFd, to: &OwnedFd, depth: usize) -> io::Result<()> {
    if depth > MAX_DEPTH {
        return Err(Errno::NAMETOOLONG.into());
    }
    for entry in Dir::read_from(from)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let stat = statat(from, name, AtFlags::SYMLINK_NOFOLLOW)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let child = openat(from, name, flags, Mode::empty())?;
                mkdirat(to, name, Mode::RWXU)?;
                let made = openat(to, name, flags, Mode::empty())?;
                copy_directory(&child, &made, depth + 1)?;
            }
            FileType::RegularFile => {
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                let mut source = File::from(openat(from, name, flags, Mode::empty())?);
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                let mut target = File::from(openat(to, name, flags, Mode::RUSR | Mode::WUSR)?);
                io::copy(&mut source, &mut target)?;
                finish(source.as_fd(), target.as_fd(), &stat)?;
            }
            FileType::Symlink => {
                let target = readlinkat(from, name, Vec::new())?;
                symlinkat(target.as_c_str(), to, name)?;
                own(to, name, &stat)?;
            }
            kind @ (FileType::Fifo | FileType::CharacterDevice | FileType::BlockDevice) => {
                mknodat(
                    to,
                    name,
                    kind,
                    Mode::from_raw_mode(stat.st_mode),
                    stat.st_rdev,
                )?;
                own(to, name, &stat)?;
            }
            // A socket without the process that listens is of no use.
            FileType::Socket | FileType::Unknown => {}
        }
    }
    finish(from.as_fd(), to.as_fd(), &fstat(from)?)
}

/// Owner before mode: a change of owner takes the set-id bits away.
fn finish(from: BorrowedFd<'_>, to: BorrowedFd<'_>, stat: &Stat) -> io::Result<()> {
    fchown(to, Some(uid(stat)), Some(gid(stat)))?;
    fchmod(to, Mode::from_raw_mode(stat.st_mode & 0o7777))?;
    copy_xattrs(from, to)?;
    rustix::fs::futimens(to, &times(stat))?;
    Ok(())
}

fn own(dir: &OwnedFd, name: &std::ffi::CStr, stat: &Stat) -> io::Result<()> {
    chownat(
        dir,
        name,
        Some(uid(stat)),
        Some(gid(stat)),
        AtFlags::SYMLINK_NOFOLLOW,
    )?;
    utimensat(dir, name, &times(stat), AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(())
}

/// Capabilities, ACLs and the like; what a filesystem has no place for is left behind.
fn copy_xattrs(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> io::Result<()> {
    let mut names = vec![0u8; 64 << 10];
    let length = match flistxattr(from, &mut names) {
        Err(Errno::OPNOTSUPP) => return Ok(()),
        length => length?,
    };
    let mut value = vec![0u8; 64 << 10];
    for name in names[..length]
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
    {
        // The volume gets its own label.
        if name == b"security.selinux" || name.starts_with(b"trusted.overlay.") {
            continue;
        }
        let length = match fgetxattr(from, name, &mut value) {
            Err(Errno::NODATA | Errno::OPNOTSUPP) => continue,
            length => length?,
        };
        match fsetxattr(to, name, &value[..length], XattrFlags::empty()) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::PERM) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn uid(stat: &Stat) -> Uid {
    Uid::from_raw(stat.st_uid)
}

fn gid(stat: &Stat) -> Gid {
    Gid::from_raw(stat.st_gid)
}

fn times(stat: &Stat) -> Timestamps {
    Timestamps {
        last_access: Timespec {
            tv_sec: stat.st_atime,
            tv_nsec: i64::try_from(stat.st_atime_nsec).unwrap_or(0),
        },
        last_modification: Timespec {
            tv_sec: stat.st_mtime,
            tv_nsec: i64::try_from(stat.st_mtime_nsec).unwrap_or(0),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    fn copied(fill: impl FnOnce(&Path)) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        fs::create_dir_all(root.join("data")).unwrap();
        fill(&root);
        let volume = dir.path().join("volumes/0");
        make(File::open(&root).unwrap().as_fd(), "/data", &volume).unwrap();
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
        make(root.as_fd(), "/nothing", &dir.path().join("v")).unwrap();
        assert!(!dir.path().join("v/leftover").exists());
    }
}
