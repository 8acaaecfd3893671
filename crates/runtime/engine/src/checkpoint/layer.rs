//! Writing a writable layer as an archive in the form of an image layer.
//!
//! The container is frozen meanwhile, but it chose all names in the layer. So files are opened beneath the
//! layer's root without following symbolic links.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, Stat, fgetxattr, flistxattr, fstat, major, minor, open,
    readlinkat, statat,
};
use tar::{Builder, EntryType, Header};

use super::content::Content;
use super::open_beneath;
use orlop_fs::{Change, ChangeKind, changes};

/// Prefix of names that mark deleted files (OCI image layer specification, "Whiteouts").
const WHITEOUT: &str = ".wh.";

/// Prefixes of overlayfs's own attributes.
const MARKS: [&[u8]; 2] = [b"trusted.overlay.", b"user.overlay."];

/// The longest attribute that Linux allows.
const XATTR_MAX: usize = 64 << 10;

/// Writes the changes of `upper` relative to `lower` into `archive`; returns the deleted paths.
pub fn write(upper: &Path, lower: &[PathBuf], archive: impl Write) -> io::Result<Vec<PathBuf>> {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    let root = open(upper, flags, Mode::empty())?;
    let mut writer = Writer {
        builder: Builder::new(archive),
        links: HashMap::new(),
        deleted: Vec::new(),
    };
    writer.root(&root)?;
    let mut outcome = Ok(());
    changes(upper, lower, &mut |change| {
        outcome = writer.change(&root, &change);
        outcome.is_ok()
    })?;
    outcome?;
    writer.builder.into_inner()?.flush()?;
    Ok(writer.deleted)
}

struct Writer<W: Write> {
    builder: Builder<W>,
    /// Files with several hard links, and the first path of each.
    links: HashMap<(u64, u64), PathBuf>,
    deleted: Vec<PathBuf>,
}

impl<W: Write> Writer<W> {
    /// Writes the metadata of the root directory.
    fn root(&mut self, root: &OwnedFd) -> io::Result<()> {
        let stat = fstat(root)?;
        let mut header = header(&stat, EntryType::Directory);
        self.builder.append_data(&mut header, "./", io::empty())
    }

    fn change(&mut self, root: &OwnedFd, change: &Change) -> io::Result<()> {
        let path = change.path.strip_prefix("/").unwrap_or(&change.path);
        let outcome = if change.kind == ChangeKind::Deleted {
            self.deletion(path)
        } else {
            self.entry(root, path)
        };
        outcome.map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", change.path.display()))
        })
    }

    fn deletion(&mut self, path: &Path) -> io::Result<()> {
        let mut name = OsStr::new(WHITEOUT).to_owned();
        name.push(path.file_name().unwrap_or_default());
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(0);
        header.set_size(0);
        let whiteout = path.with_file_name(name);
        self.builder
            .append_data(&mut header, whiteout, io::empty())?;
        self.deleted.push(Path::new("/").join(path));
        Ok(())
    }

    fn entry(&mut self, root: &OwnedFd, path: &Path) -> io::Result<()> {
        let parent = open_beneath(root, parent_of(path), OFlags::PATH | OFlags::DIRECTORY)?;
        let name = path.file_name().unwrap_or_default();
        let stat = statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => EntryType::Regular,
            FileType::Directory => EntryType::Directory,
            FileType::Symlink => EntryType::Symlink,
            FileType::Fifo => EntryType::Fifo,
            FileType::CharacterDevice => EntryType::Char,
            FileType::BlockDevice => EntryType::Block,
            // A socket file is useless without its socket: CRIU recreates it.
            _ => return Ok(()),
        };
        let mut header = header(&stat, kind);
        if stat.st_nlink > 1 && kind != EntryType::Directory {
            let inode = (stat.st_dev, stat.st_ino);
            if let Some(first) = self.links.get(&inode) {
                header.set_entry_type(EntryType::Link);
                header.set_size(0);
                return self.builder.append_link(&mut header, path, first);
            }
            self.links.insert(inode, path.to_owned());
        }
        match kind {
            EntryType::Regular => {
                let flags = OFlags::RDONLY | OFlags::NONBLOCK;
                let file = File::from(open_beneath(root, path, flags)?);
                let content = Content::of(&file)?;
                header.set_size(content.map.len() as u64 + content.stored());
                let mut records = attributes(&file);
                records.extend(content.records(path));
                self.records(&records)?;
                let content = (&content.map[..]).chain(content.reader());
                self.builder.append_data(&mut header, path, content)
            }
            EntryType::Directory => {
                let directory = open_beneath(root, path, OFlags::DIRECTORY)?;
                self.records(&attributes(&directory))?;
                self.builder.append_data(&mut header, path, io::empty())
            }
            EntryType::Symlink => {
                let target = readlinkat(&parent, name, Vec::new())?;
                let target = OsStr::from_bytes(target.to_bytes());
                self.builder.append_link(&mut header, path, target)
            }
            _ => {
                header.set_device_major(major(stat.st_rdev))?;
                header.set_device_minor(minor(stat.st_rdev))?;
                self.builder.append_data(&mut header, path, io::empty())
            }
        }
    }

    /// PAX records precede the entry that they describe.
    fn records(&mut self, records: &[(String, Vec<u8>)]) -> io::Result<()> {
        if records.is_empty() {
            return Ok(());
        }
        let records = records
            .iter()
            .map(|(key, value)| (key.as_str(), &value[..]));
        self.builder.append_pax_extensions(records)
    }
}

/// Returns the extended attributes of a file as PAX records.
fn attributes(file: impl AsFd) -> Vec<(String, Vec<u8>)> {
    let mut names = vec![0; XATTR_MAX];
    let Ok(length) = flistxattr(&file, &mut names[..]) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for name in names[..length].split(|byte| *byte == 0) {
        if name.is_empty() || MARKS.iter().any(|mark| name.starts_with(mark)) {
            continue;
        }
        let Ok(name) = std::str::from_utf8(name) else {
            continue;
        };
        let mut value = vec![0; XATTR_MAX];
        let Ok(length) = fgetxattr(&file, name, &mut value[..]) else {
            continue;
        };
        value.truncate(length);
        found.push((format!("SCHILY.xattr.{name}"), value));
    }
    found
}

fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

fn header(stat: &Stat, kind: EntryType) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(stat.st_mode & 0o7777);
    header.set_uid(u64::from(stat.st_uid));
    header.set_gid(u64::from(stat.st_gid));
    header.set_mtime(u64::try_from(stat.st_mtime).unwrap_or(0));
    header.set_size(0);
    header
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _, symlink};

    use orlop_image_store::{Limits, unpack_changes};
    use rustix::fs::{CWD, XattrFlags, mknodat, setxattr};

    use super::*;

    #[test]
    fn what_is_written_is_what_is_unpacked() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for layer in ["lower/etc", "upper/etc", "upper/data/deep", "again"] {
            fs::create_dir_all(path(layer)).unwrap();
        }
        fs::write(path("lower/etc/old"), "old").unwrap();
        fs::write(path("lower/etc/passwd"), "root").unwrap();
        fs::write(path("upper/etc/passwd"), "me").unwrap();
        fs::set_permissions(path("upper/etc"), fs::Permissions::from_mode(0o751)).unwrap();
        fs::write(path("upper/data/a"), vec![7; 100_000]).unwrap();
        fs::hard_link(path("upper/data/a"), path("upper/data/deep/b")).unwrap();
        symlink("/etc/shadow", path("upper/data/link")).unwrap();
        let flags = XattrFlags::empty();
        setxattr(path("upper/data/a"), "user.colour", b"blue", flags).unwrap();
        let whiteout = path("upper/etc/old");
        let nothing = FileType::CharacterDevice;
        mknodat(CWD, &whiteout, nothing, Mode::empty(), 0).unwrap();
        mknodat(
            CWD,
            path("upper/pipe"),
            FileType::Fifo,
            Mode::from(0o600),
            0,
        )
        .unwrap();

        let mut archive = Vec::new();
        let deleted = write(&path("upper"), &[path("lower")], &mut archive).unwrap();
        assert_eq!(deleted, [Path::new("/etc/old")]);
        unpack_changes("changes", &archive[..], &path("again"), &Limits::default()).unwrap();

        let mode = |name: &str| fs::symlink_metadata(path(name)).unwrap().mode();
        assert_eq!(fs::read(path("again/etc/passwd")).unwrap(), b"me");
        assert_eq!(mode("again/etc") & 0o7777, 0o751);
        assert_eq!(fs::read(path("again/data/a")).unwrap(), vec![7; 100_000]);
        let inode = |name: &str| fs::metadata(path(name)).unwrap().ino();
        assert_eq!(inode("again/data/a"), inode("again/data/deep/b"));
        let link = fs::read_link(path("again/data/link")).unwrap();
        assert_eq!(link, Path::new("/etc/shadow"));
        assert_eq!(FileType::from_raw_mode(mode("again/etc/old")), nothing);
        assert_eq!(FileType::from_raw_mode(mode("again/pipe")), FileType::Fifo);
        let mut colour = [0; 8];
        let file = File::open(path("again/data/a")).unwrap();
        let length = fgetxattr(&file, "user.colour", &mut colour[..]).unwrap();
        assert_eq!(&colour[..length], b"blue");
    }

    #[test]
    fn a_sparse_file_of_terabytes_is_written_as_what_it_holds() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for layer in ["upper", "again"] {
            fs::create_dir(path(layer)).unwrap();
        }
        let size = 4 << 40;
        let name = "large".repeat(40);
        let sparse = File::create(path("upper").join(&name)).unwrap();
        sparse.set_len(size).unwrap();
        sparse.write_all_at(b"begin", 0).unwrap();
        sparse.write_all_at(b"middle", 1 << 40).unwrap();
        setxattr(
            path("upper").join(&name),
            "user.colour",
            b"blue",
            XattrFlags::empty(),
        )
        .unwrap();
        File::create(path("upper/empty"))
            .unwrap()
            .set_len(1 << 30)
            .unwrap();

        let mut archive = Vec::new();
        write(&path("upper"), &[], &mut archive).unwrap();
        assert!(archive.len() < 64 << 10, "{}", archive.len());
        let limits = Limits {
            layer_bytes: u64::MAX,
            ..Limits::default()
        };
        unpack_changes("changes", &archive[..], &path("again"), &limits).unwrap();
        let again = File::open(path("again").join(&name)).unwrap();
        let look = again.metadata().unwrap();
        assert_eq!(look.len(), size);
        assert!(look.blocks() < 1024, "{}", look.blocks());
        let mut middle = [0; 8];
        again.read_exact_at(&mut middle, (1 << 40) - 1).unwrap();
        assert_eq!(&middle, b"\0middle\0");
        let mut colour = [0; 8];
        let length = fgetxattr(&again, "user.colour", &mut colour[..]).unwrap();
        assert_eq!(&colour[..length], b"blue");
        assert_eq!(fs::metadata(path("again/empty")).unwrap().len(), 1 << 30);
    }
}
