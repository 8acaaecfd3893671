//! Copies the attributes of directories that a layer uses without describing them from the layers below.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, Stat, Timespec, Timestamps, Uid, XattrFlags, chmodat,
    chownat, lgetxattr, llistxattr, lsetxattr, openat, statat, utimensat,
};
use rustix::io::Errno;

use crate::unpack::LayerRoot;
use crate::{Error, Result};

/// Attributes of a directory, read from a lower layer.
pub(crate) struct Inherited {
    path: Vec<u8>,
    stat: Stat,
    xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Finds the undescribed directories of a layer whose attributes in the layers below (`lower`, top first) differ from
/// the default ones. Blocks.
pub(crate) fn inherited(
    implicit: &[Vec<u8>],
    lower: &[impl AsRef<Path>],
) -> Result<Vec<Inherited>> {
    let mut found = Vec::new();
    if implicit.is_empty() {
        return Ok(found);
    }
    let roots = lower
        .iter()
        .map(|path| {
            let path = path.as_ref();
            LayerRoot::open(path).map_err(|error| Error::at("opening", path, error))
        })
        .collect::<Result<Vec<_>>>()?;
    for path in implicit {
        for root in &roots {
            let doing = || {
                format!(
                    "looking for {:?} in a lower layer",
                    String::from_utf8_lossy(path)
                )
            };
            match look(root.fd(), path).map_err(|error| Error::io(doing(), error.into()))? {
                Look::Missing => {}
                Look::Hidden => break,
                Look::Directory(stat, xattrs) => {
                    let plain =
                        stat.st_mode & 0o7777 == 0o755 && stat.st_uid == 0 && stat.st_gid == 0;
                    if !plain || !xattrs.is_empty() {
                        found.push(Inherited {
                            path: path.clone(),
                            stat,
                            xattrs,
                        });
                    }
                    break;
                }
            }
        }
    }
    Ok(found)
}

impl Inherited {
    /// Sets the attributes of the directory in an image.
    pub(crate) fn apply_to_image(&self, image: &mut orlop_erofs::Image) -> Result<()> {
        let look = orlop_erofs::Attributes {
            mode: (self.stat.st_mode & 0o7777) as u16,
            uid: self.stat.st_uid,
            gid: self.stat.st_gid,
            mtime: orlop_erofs::Timestamp {
                seconds: self.stat.st_mtime,
                nanoseconds: u32::try_from(self.stat.st_mtime_nsec).unwrap_or(0),
            },
            xattrs: image
                .attributes(&self.names())
                .map(|before| before.xattrs.clone())
                .unwrap_or_default()
                .into_iter()
                .chain(self.xattrs.iter().cloned())
                .collect(),
        };
        image.set_attributes(&self.names(), look).map_err(|error| {
            let path = String::from_utf8_lossy(&self.path);
            let doing = format!("copying the attributes of {path:?} from the layer below");
            Error::store(doing, error)
        })
    }

    fn names(&self) -> Vec<&[u8]> {
        self.path.split(|byte| *byte == b'/').collect()
    }

    /// Sets the attributes of the directory below `layer`. Blocks.
    pub(crate) fn apply(&self, layer: &Path) -> Result<()> {
        let set = || -> rustix::io::Result<()> {
            let mut root = LayerRoot::open(layer)?;
            let (dir, name) = root.existing_place(&self.path)?;
            let owner = (
                Uid::from_raw(self.stat.st_uid),
                Gid::from_raw(self.stat.st_gid),
            );
            chownat(
                &dir,
                name,
                Some(owner.0),
                Some(owner.1),
                AtFlags::SYMLINK_NOFOLLOW,
            )?;
            chmodat(
                &dir,
                name,
                Mode::from_raw_mode(self.stat.st_mode & 0o7777),
                AtFlags::empty(),
            )?;
            let path = through_fd(&*dir, name);
            for (name, value) in &self.xattrs {
                lsetxattr(&*path, &name[..], value, XattrFlags::empty())?;
            }
            let times = Timestamps {
                last_access: Timespec {
                    tv_sec: 0,
                    tv_nsec: rustix::fs::UTIME_OMIT,
                },
                last_modification: Timespec {
                    tv_sec: self.stat.st_mtime,
                    tv_nsec: self.stat.st_mtime_nsec as _,
                },
            };
            utimensat(&dir, name, &times, AtFlags::SYMLINK_NOFOLLOW)
        };
        set().map_err(|error| {
            let path = String::from_utf8_lossy(&self.path);
            Error::io(
                format!("copying the attributes of {path:?} from the layer below"),
                error.into(),
            )
        })
    }
}

enum Look {
    Missing,
    /// Not a directory, or below an ancestor that hides all lower layers.
    Hidden,
    Directory(Stat, Vec<(Vec<u8>, Vec<u8>)>),
}

/// Resolves the path component by component, because overlayfs does not follow links in lower layers.
fn look(root: &OwnedFd, path: &[u8]) -> rustix::io::Result<Look> {
    let mut here: Option<OwnedFd> = None;
    let mut hidden_below = false;
    let mut parts = path.split(|byte| *byte == b'/').peekable();
    while let Some(part) = parts.next() {
        let dir = here.as_ref().unwrap_or(root);
        let stat = match statat(dir, part, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) if hidden_below => return Ok(Look::Hidden),
            Err(Errno::NOENT) => return Ok(Look::Missing),
            Err(error) => return Err(error),
        };
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            return Ok(Look::Hidden);
        }
        if parts.peek().is_none() {
            return Ok(Look::Directory(stat, xattrs(dir, part)?));
        }
        hidden_below |= get(&through_fd(dir, part), b"trusted.overlay.opaque")?.is_some();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        here = Some(openat(dir, part, flags, Mode::empty())?);
    }
    Ok(Look::Missing)
}

/// Returns the extended attributes that an image can contain.
fn xattrs(dir: &OwnedFd, name: &[u8]) -> rustix::io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let path = through_fd(dir, name);
    let mut names = vec![0_u8; 64 << 10];
    let length = match llistxattr(&*path, &mut names[..]) {
        Ok(length) => length,
        Err(Errno::OPNOTSUPP) => 0,
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for name in names[..length].split(|byte| *byte == 0) {
        let ours = name.starts_with(b"user.") || name.starts_with(b"system.posix_acl_");
        if ours && let Some(value) = get(&path, name)? {
            found.push((name.to_vec(), value));
        }
    }
    Ok(found)
}

fn get(path: &[u8], name: &[u8]) -> rustix::io::Result<Option<Vec<u8>>> {
    let mut value = vec![0_u8; 64 << 10];
    match lgetxattr(path, name, &mut value[..]) {
        Ok(length) => {
            value.truncate(length);
            Ok(Some(value))
        }
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
        Err(error) => Err(error),
    }
}

fn through_fd(dir: impl AsFd, name: &[u8]) -> Vec<u8> {
    let mut path = format!("/proc/self/fd/{}/", dir.as_fd().as_raw_fd()).into_bytes();
    path.extend_from_slice(name);
    path
}
