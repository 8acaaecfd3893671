//! Files of a cgroup: one system call to open, one to write.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;

use crate::error::{Error, meaning};

/// More than any cgroup file read here contains; `memory.stat` is the longest.
const LIMIT: u64 = 1 << 20;

/// A cgroup's directory in one hierarchy.
#[derive(Debug)]
pub(super) struct Dir {
    fd: OwnedFd,
    path: PathBuf,
}

impl Dir {
    pub(super) fn open(path: &Path) -> Result<Self, Failed> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = openat(CWD, path, flags, Mode::empty())
            .map_err(|errno| Failed::opening(path.to_owned(), errno))?;
        Ok(Self {
            fd,
            path: path.to_owned(),
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn into_fd(self) -> OwnedFd {
        self.fd
    }

    /// Opens a file that is written several times.
    pub(super) fn file(&self, name: &str) -> Result<File, Failed> {
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = openat(&self.fd, name, flags, Mode::empty())
            .map_err(|errno| Failed::opening(self.path.join(name), errno))?;
        Ok(File {
            fd,
            path: self.path.join(name),
        })
    }

    pub(super) fn write(&self, name: &str, value: impl fmt::Display) -> Result<(), Failed> {
        self.file(name)?.write(value)
    }

    pub(super) fn read(&self, name: &str) -> Result<String, Failed> {
        let failed = |errno| Failed::opening(self.path.join(name), errno);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = openat(&self.fd, name, flags, Mode::empty()).map_err(failed)?;
        let read = orlop_fs::read_whole_text(std::fs::File::from(fd), LIMIT);
        read.map_err(|error| Failed {
            reading: true,
            ..failed(Errno::from_io_error(&error).unwrap_or(Errno::IO))
        })
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A file of a cgroup, open for writing.
#[derive(Debug)]
pub(super) struct File {
    fd: OwnedFd,
    path: PathBuf,
}

impl File {
    pub(super) fn into_fd(self) -> OwnedFd {
        self.fd
    }

    /// Writes a value with a single call, as the kernel requires.
    pub(super) fn write(&self, value: impl fmt::Display) -> Result<(), Failed> {
        let value = value.to_string();
        let written = loop {
            match rustix::io::write(&self.fd, value.as_bytes()) {
                Err(Errno::INTR) => {}
                written => break written,
            }
        };
        let errno = match written {
            Ok(length) if length == value.len() => return Ok(()),
            Ok(_) => Errno::IO,
            Err(errno) => errno,
        };
        Err(Failed {
            path: self.path.clone(),
            value: Some(value),
            errno,
            reading: false,
        })
    }
}

/// A failed operation on a cgroup file.
#[derive(Debug)]
pub(super) struct Failed {
    path: PathBuf,
    value: Option<String>,
    pub(super) errno: Errno,
    reading: bool,
}

impl Failed {
    fn opening(path: PathBuf, errno: Errno) -> Self {
        Self {
            path,
            value: None,
            errno,
            reading: false,
        }
    }

    /// Returns whether the file does not exist, or the cgroup was removed.
    pub(super) fn is_not_found(&self) -> bool {
        matches!(self.errno, Errno::NOENT | Errno::NODEV)
    }

    /// Returns whether the failure is a lack of privileges.
    pub(super) fn is_for_want_of_rights(&self) -> bool {
        is_for_want_of_rights(self.errno)
    }
}

/// Returns whether this error is a lack of privileges.
pub(super) fn is_for_want_of_rights(errno: Errno) -> bool {
    matches!(errno, Errno::PERM | Errno::ACCESS | Errno::ROFS)
}

impl fmt::Display for Failed {
    /// Uses runc's wording.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, reason) = (self.path.display(), meaning(self.errno.raw_os_error()));
        match (&self.value, self.reading) {
            (Some(value), _) => write!(f, "failed to write {value:?}: write {path}: {reason}"),
            (None, true) => write!(f, "read {path}: {reason}"),
            (None, false) => write!(f, "open {path}: {reason}"),
        }
    }
}

impl From<Failed> for Error {
    fn from(failed: Failed) -> Self {
        Self::new(failed.to_string())
    }
}
