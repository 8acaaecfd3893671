//! What the kernel finds in an image.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::PathBuf;

use orlop_erofs::{Attributes, Kind, Timestamp, Xattrs, mount};

use crate::model::{Found, Path};

/// A mounted image.
pub struct Mounted(OwnedFd);

impl Mounted {
    pub fn new(image: &File) -> Self {
        Self::of(mount::mount(image.as_fd(), None).expect("mount"))
    }

    pub fn of(mount: OwnedFd) -> Self {
        Self(mount)
    }

    /// A path in it by which it is reached.
    pub fn path(&self, path: &Path) -> PathBuf {
        let mut at = PathBuf::from(format!("/proc/self/fd/{}/.", self.0.as_raw_fd()));
        at.extend(path.iter().map(|name| OsStr::from_bytes(name)));
        at
    }

    /// All that is in it.
    pub fn walk(&self) -> BTreeMap<Path, Found> {
        let mut all = BTreeMap::new();
        let mut first = BTreeMap::new();
        let mut pending: Vec<Path> = vec![Vec::new()];
        while let Some(path) = pending.pop() {
            let (found, ino) = self.look(&path);
            if found.kind == Kind::Directory {
                for entry in fs::read_dir(self.path(&path)).expect("list") {
                    let entry = entry.expect("read an entry");
                    let name = entry.file_name().into_vec();
                    let child = [&path[..], &[name]].concat();
                    let metadata = fs::symlink_metadata(self.path(&child)).expect("look up");
                    assert_eq!(entry.file_type().expect("type"), metadata.file_type());
                    pending.push(child);
                }
                let absent = self.path(&[&path[..], &[b"~absent".to_vec()]].concat());
                let error = fs::symlink_metadata(absent).expect_err("is not there");
                assert_eq!(error.kind(), ErrorKind::NotFound);
            }
            let lowest: &mut Path = first.entry(ino).or_insert_with(|| path.clone());
            if path < *lowest {
                lowest.clone_from(&path);
            }
            all.insert(path, (found, ino));
        }
        let with_first = all.into_iter().map(|(path, (mut found, ino))| {
            found.same_as.clone_from(&first[&ino]);
            (path, found)
        });
        with_first.collect()
    }

    fn look(&self, path: &Path) -> (Found, u64) {
        let at = self.path(path);
        let metadata = fs::symlink_metadata(&at).expect("look");
        let file_type = metadata.file_type();
        let (kind, bytes) = if file_type.is_dir() {
            (Kind::Directory, Vec::new())
        } else if file_type.is_file() {
            (Kind::File, fs::read(&at).expect("read"))
        } else if file_type.is_symlink() {
            let target = fs::read_link(&at).expect("read the link");
            (Kind::Symlink, target.into_os_string().into_vec())
        } else if file_type.is_char_device() {
            (Kind::Character, Vec::new())
        } else if file_type.is_block_device() {
            (Kind::Block, Vec::new())
        } else {
            assert!(file_type.is_fifo());
            (Kind::Fifo, Vec::new())
        };
        if kind != Kind::Directory {
            assert_eq!(metadata.len(), bytes.len() as u64);
        }
        let device = metadata.rdev();
        let numbers = (rustix::fs::major(device), rustix::fs::minor(device));
        let found = Found {
            kind,
            attributes: Attributes {
                mode: (metadata.mode() & 0o7777) as u16,
                uid: metadata.uid(),
                gid: metadata.gid(),
                mtime: Timestamp {
                    seconds: metadata.mtime(),
                    nanoseconds: metadata.mtime_nsec() as u32,
                },
                xattrs: xattrs(&at),
            },
            links: metadata.nlink(),
            bytes,
            device: matches!(kind, Kind::Character | Kind::Block).then_some(numbers),
            same_as: Vec::new(),
        };
        (found, metadata.ino())
    }
}

pub fn xattrs(path: &std::path::Path) -> Xattrs {
    let mut list = vec![0; 1 << 16];
    let length = rustix::fs::llistxattr(path, &mut list[..]).expect("list attributes");
    let names = list[..length].split(|byte| *byte == 0);
    let names = names.filter(|name| !name.is_empty());
    let pairs = names.map(|name| {
        let mut value = vec![0; 1 << 16];
        let length = rustix::fs::lgetxattr(path, name, &mut value[..]).expect("get an attribute");
        value.truncate(length);
        (name.to_vec(), value)
    });
    pairs.collect()
}
