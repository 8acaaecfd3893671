//! The log's file.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2};

/// Where a log is.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// Who made the pod has chosen this directory, links and all.
    dir: PathBuf,
    /// Below it: pods may be able to write there.
    beneath: PathBuf,
}

impl Place {
    /// The place of the log at `path`, in the pod's directory of logs. A daemon of before there was
    /// that names none: then it is the log's own directory.
    pub(crate) fn new(path: &Path, dir: &Path) -> io::Result<Self> {
        let dir = match path.parent() {
            Some(parent) if dir.as_os_str().is_empty() => parent,
            _ => dir,
        };
        match path.strip_prefix(dir) {
            Ok(beneath) if !beneath.as_os_str().is_empty() => Ok(Self {
                dir: dir.to_owned(),
                beneath: beneath.to_owned(),
            }),
            _ => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("not a file path below {}", dir.display()),
            )),
        }
    }

    /// The whole path.
    pub(crate) fn path(&self) -> PathBuf {
        self.dir.join(&self.beneath)
    }

    /// Opens the log to append to, making it if need be. What is there must be a regular file itself,
    /// and on the way to it there must be no link.
    pub(super) fn open(&self) -> io::Result<File> {
        let dir_flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = openat(CWD, &self.dir, dir_flags, Mode::empty())?;
        // Not to be held up by a fifo, either.
        let flags = OFlags::WRONLY
            | OFlags::APPEND
            | OFlags::CREATE
            | OFlags::NOFOLLOW
            | OFlags::NONBLOCK
            | OFlags::NOCTTY
            | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let mode = Mode::from_bits_truncate(0o640);
        let file = openat2(&dir, &self.beneath, flags, mode, resolve)?;
        if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::RegularFile {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the path exists and is not a regular file",
            ));
        }
        Ok(file.into())
    }
}
