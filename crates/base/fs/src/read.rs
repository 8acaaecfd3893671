//! Reads files whose paths come from others.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result, Seek as _, SeekFrom};
use std::os::fd::AsRawFd as _;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, major, minor, open};
use rustix::io::Errno;

/// The null device, used as an empty configuration file (mem(4)).
const DEV_NULL: (u32, u32) = (1, 3);

/// Flags to find the target of a path without any effect on it.
const FIND: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// Flags to read the target without blocking.
const READ: OFlags = OFlags::RDONLY
    .union(OFlags::CLOEXEC)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY);

/// Opens a path for reading if it is a regular file or `/dev/null`. Other files are not opened at all: opening a device
/// may have an effect, and a fifo would block.
pub fn open_file(path: &Path) -> Result<File> {
    open_with_length(path).map(|(file, _)| file)
}

/// Returns the file of a path, and its reported size.
fn open_with_length(path: &Path) -> Result<(File, u64)> {
    let found = open(path, FIND, Mode::empty())?;
    let stat = fstat(&found)?;
    if !is_readable(&stat) {
        return Err(not_regular());
    }
    let path = format!("/proc/self/fd/{}", found.as_raw_fd());
    let file = open(path, READ, Mode::empty()).map_err(|error| match error {
        // The file was found before, so `/proc` is missing.
        Errno::NOENT => Error::other("cannot open files without /proc; mount it"),
        error => error.into(),
    })?;
    Ok((File::from(file), stat.st_size.unsigned_abs()))
}

fn not_regular() -> Error {
    Error::new(ErrorKind::InvalidInput, "not a regular file")
}

fn is_readable(stat: &Stat) -> bool {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => true,
        FileType::CharacterDevice => (major(stat.st_rdev), minor(stat.st_rdev)) == DEV_NULL,
        _ => false,
    }
}

/// More than a configuration file or a record file contains.
pub const SMALL_FILE: u64 = 16 << 20;

/// More than one file of the kernel contains. The size of its mount and process tables depends on the processes that
/// mount and fork.
pub const KERNEL_FILE: u64 = 64 << 20;

/// The memory reserved at most because of a file's reported size.
const GUESS: u64 = 1 << 20;

/// Reads a regular file, if it has no more than `limit` bytes.
pub fn read_file(path: impl AsRef<Path>, limit: u64) -> Result<Vec<u8>> {
    let (file, length) = open_with_length(path.as_ref())?;
    // An estimate that avoids reading in pieces. The kernel's files report a size of 0.
    let length = match length {
        0 => 1024,
        length => length.min(limit).min(GUESS) + 1,
    };
    let mut read = Vec::with_capacity(length as usize);
    read_up_to(file, limit.saturating_add(1), &mut read)?;
    within(read, limit)
}

/// Reads a regular text file, if it has no more than `limit` bytes.
pub fn read_text(path: impl AsRef<Path>, limit: u64) -> Result<String> {
    text(read_file(path, limit)?)
}

/// Reads a stream to its end, if that is no more than `limit` bytes.
pub fn read_whole(from: impl Read, limit: u64) -> Result<Vec<u8>> {
    within(read_start(from, limit.saturating_add(1))?, limit)
}

/// Returns the bytes, if there are no more than the limit.
fn within(read: Vec<u8>, limit: u64) -> Result<Vec<u8>> {
    if read.len() as u64 > limit {
        let message = format!("larger than the limit of {limit} bytes");
        return Err(Error::new(ErrorKind::FileTooLarge, message));
    }
    Ok(read)
}

/// Reads a text stream to its end, if that is no more than `limit` bytes.
pub fn read_whole_text(from: impl Read, limit: u64) -> Result<String> {
    text(read_whole(from, limit)?)
}

/// Reads the first bytes of a stream, at most `most`. The rest stays unread.
pub fn read_start(from: impl Read, most: u64) -> Result<Vec<u8>> {
    let mut read = Vec::new();
    read_up_to(from, most, &mut read)?;
    Ok(read)
}

#[expect(clippy::disallowed_methods, reason = "a limit is what it has here")]
fn read_up_to(from: impl Read, most: u64, into: &mut Vec<u8>) -> Result<()> {
    from.take(most).read_to_end(into).map(drop)
}

fn text(read: Vec<u8>) -> Result<String> {
    String::from_utf8(read).map_err(|_| Error::new(ErrorKind::InvalidData, "not valid UTF-8"))
}

/// Reads the end of a regular file that may still be written to: at most `most` bytes.
pub fn read_tail(path: impl AsRef<Path>, most: u64) -> Result<Vec<u8>> {
    read_end(open_file(path.as_ref())?, most)
}

/// Reads the end of an open file: at most `most` bytes.
pub fn read_end(mut file: File, most: u64) -> Result<Vec<u8>> {
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(most)))?;
    read_start(file, most)
}

/// Reads a kernel file: in `/proc`, in `/sys`, or of a cgroup. The kernel controls its type, so it is opened directly.
pub fn read_kernel_file(path: impl AsRef<Path>) -> Result<Vec<u8>> {
    let file = open(path.as_ref(), READ, Mode::empty())?;
    if !is_readable(&fstat(&file)?) {
        return Err(not_regular());
    }
    let mut read = Vec::with_capacity(1024);
    read_up_to(File::from(file), KERNEL_FILE + 1, &mut read)?;
    within(read, KERNEL_FILE)
}

/// Reads a kernel file as text.
pub fn read_kernel_text(path: impl AsRef<Path>) -> Result<String> {
    text(read_kernel_file(path)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, inotify, mknodat};

    #[test]
    fn what_is_no_file_of_the_kernels_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let error = read_kernel_file(&fifo).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(read_kernel_text("/proc/self/stat").unwrap().ends_with('\n'));
    }

    #[test]
    fn a_file_is_read_up_to_its_limit_and_no_further() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, "12345").unwrap();
        assert_eq!(read_file(&path, 5).unwrap(), b"12345");
        let error = read_file(&path, 4).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
        assert!(error.to_string().contains("4 bytes"), "{error}");
    }

    #[test]
    fn of_a_stream_without_end_no_more_is_read_than_its_limit() {
        let error = read_whole(std::io::repeat(b'x'), 9).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
        assert_eq!(read_whole(&b"12345"[..], 5).unwrap(), b"12345");
        assert_eq!(read_start(std::io::repeat(b'x'), 3).unwrap(), b"xxx");
        let error = read_whole_text(&b"\xff"[..], 5).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
    }

    #[test]
    fn null_is_empty_and_other_devices_are_no_files() {
        assert_eq!(read_text("/dev/null", 5).unwrap(), "");
        let error = read_file("/dev/zero", 5).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }

    #[test]
    fn of_a_log_no_more_than_its_end_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        std::fs::write(&path, "12345").unwrap();
        assert_eq!(read_tail(&path, 2).unwrap(), b"45");
        assert_eq!(read_tail(&path, 9).unwrap(), b"12345");
    }

    #[test]
    fn what_is_no_file_is_never_opened() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fifo");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR, 0).unwrap();
        let opened = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
        inotify::add_watch(&opened, &path, inotify::WatchFlags::OPEN).unwrap();
        let mut told = [0; 64];
        for error in [
            read_file(&path, 5).unwrap_err(),
            open_file(&path).unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert_eq!(rustix::io::read(&opened, &mut told), Err(Errno::AGAIN));
        }
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        drop(open(&path, flags, Mode::empty()).unwrap());
        assert!(rustix::io::read(&opened, &mut told).is_ok());
    }
}
