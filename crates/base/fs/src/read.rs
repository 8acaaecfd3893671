//! Reading a file that somebody else chose.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result, Seek as _, SeekFrom};
use std::os::fd::AsRawFd as _;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, major, minor, open};
use rustix::io::Errno;

/// Where people say that they have nothing to say (mem(4)).
const DEV_NULL: (u32, u32) = (1, 3);

/// Finds what a path leads to, and does nothing to it.
const FIND: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// Reads what was found, and waits for nobody.
const READ: OFlags = OFlags::RDONLY
    .union(OFlags::CLOEXEC)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY);

/// Opens what a path names for reading if it is a regular file or `/dev/null`. Anything else is not
/// opened at all: to open a device can do something already, and a fifo would wait.
pub fn open_file(path: &Path) -> Result<File> {
    open_with_length(path).map(|(file, _)| file)
}

/// The file of a path, and how long it says that it is.
fn open_with_length(path: &Path) -> Result<(File, u64)> {
    let found = open(path, FIND, Mode::empty())?;
    let stat = fstat(&found)?;
    if !is_readable(&stat) {
        return Err(not_regular());
    }
    let path = format!("/proc/self/fd/{}", found.as_raw_fd());
    let file = open(path, READ, Mode::empty()).map_err(|error| match error {
        // What was found is there.
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

/// More than people write into a file of settings, and than programs note in one of records.
pub const SMALL_FILE: u64 = 16 << 20;

/// More than the kernel tells in one file. How long its tables of mounts and of processes become, is
/// in the hands of those who mount and fork.
pub const KERNEL_FILE: u64 = 64 << 20;

/// As much as is set aside because a file says that it is so long.
const GUESS: u64 = 1 << 20;

/// All of a regular file, if that is no more than `limit` bytes.
pub fn read_file(path: impl AsRef<Path>, limit: u64) -> Result<Vec<u8>> {
    let (file, length) = open_with_length(path.as_ref())?;
    // A guess that spares reading it in pieces. The kernel's files say that they are empty.
    let length = match length {
        0 => 1024,
        length => length.min(limit).min(GUESS) + 1,
    };
    let mut read = Vec::with_capacity(length as usize);
    read_up_to(file, limit.saturating_add(1), &mut read)?;
    within(read, limit)
}

/// All of a regular file that is text, if that is no more than `limit` bytes.
pub fn read_text(path: impl AsRef<Path>, limit: u64) -> Result<String> {
    text(read_file(path, limit)?)
}

/// All that a stream gives until it ends, if that is no more than `limit` bytes.
pub fn read_whole(from: impl Read, limit: u64) -> Result<Vec<u8>> {
    within(read_start(from, limit.saturating_add(1))?, limit)
}

/// What was read, if it is no more than the limit.
fn within(read: Vec<u8>, limit: u64) -> Result<Vec<u8>> {
    if read.len() as u64 > limit {
        let message = format!("larger than the limit of {limit} bytes");
        return Err(Error::new(ErrorKind::FileTooLarge, message));
    }
    Ok(read)
}

/// All the text that a stream gives until it ends, if that is no more than `limit` bytes.
pub fn read_whole_text(from: impl Read, limit: u64) -> Result<String> {
    text(read_whole(from, limit)?)
}

/// What a stream gives first: no more than `most` bytes. What comes after them stays unread.
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

/// The end of a regular file that somebody may be writing to: no more than `most` bytes.
pub fn read_tail(path: impl AsRef<Path>, most: u64) -> Result<Vec<u8>> {
    read_end(open_file(path.as_ref())?, most)
}

/// The end of a file that is open: no more than `most` bytes.
pub fn read_end(mut file: File, most: u64) -> Result<Vec<u8>> {
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(most)))?;
    read_start(file, most)
}

/// A file of the kernel's own: in `/proc`, in `/sys`, of a cgroup. What is there is the kernel's choice, so that it is
/// opened at once.
pub fn read_kernel_file(path: impl AsRef<Path>) -> Result<Vec<u8>> {
    let file = open(path.as_ref(), READ, Mode::empty())?;
    if !is_readable(&fstat(&file)?) {
        return Err(not_regular());
    }
    let mut read = Vec::with_capacity(1024);
    read_up_to(File::from(file), KERNEL_FILE + 1, &mut read)?;
    within(read, KERNEL_FILE)
}

/// A file of the kernel's own that is text.
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
