//! The file of a container log.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2};

/// Location of a log.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// Directory chosen by the client that created the pod; symlinks in it are followed.
    dir: PathBuf,
    /// Path below `dir`, where pods may be able to write.
    beneath: PathBuf,
}

impl Place {
    /// Returns the location of the log at `path`, in the pod's log directory. Older daemons send no directory: then it
    /// is the log's own directory.
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

    /// Returns the whole path.
    pub(crate) fn path(&self) -> PathBuf {
        self.dir.join(&self.beneath)
    }

    /// Opens the log for appending, and creates it if needed. The file must be a regular file, and its path below the
    /// directory must contain no symlink.
    pub(super) fn open(&self) -> io::Result<File> {
        let dir_flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = openat(CWD, &self.dir, dir_flags, Mode::empty())?;
        // `NONBLOCK` so that a fifo does not block the open.
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
