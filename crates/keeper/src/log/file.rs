//! The log's file.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};

/// Opens a log to append to, making it if need be. What is there must be a regular file itself:
/// a container may be able to write to the directory.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not the path of a file",
        ));
    };
    let dir_flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = openat(CWD, dir, dir_flags, Mode::empty())?;
    // Not to be held up by a fifo, either.
    let flags = OFlags::WRONLY
        | OFlags::APPEND
        | OFlags::CREATE
        | OFlags::NOFOLLOW
        | OFlags::NONBLOCK
        | OFlags::NOCTTY
        | OFlags::CLOEXEC;
    let file = openat(&dir, name, flags, Mode::from_bits_truncate(0o640))?;
    if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::RegularFile {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is there and not a regular file",
        ));
    }
    Ok(file.into())
}
