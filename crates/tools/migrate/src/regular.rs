//! Opens files of other runtimes, but only regular ones.
//!
//! Opening a device can have side effects, and an image decides about the files of its layers. So a path is resolved
//! and checked before it is opened.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, open, openat2};
use rustix::io::Errno;

const FIND: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// Opens the file at a path, following links.
pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    open_found(&open(path, FIND, Mode::empty())?)
}

/// Opens a file by name, resolving all links with this directory as the root.
pub(crate) fn open_beneath(root: impl AsFd, name: &[u8]) -> io::Result<File> {
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    // A concurrent rename anywhere on the machine may interrupt the resolution of "..".
    let mut tries = 0;
    let found = loop {
        match openat2(&root, name, FIND, Mode::empty(), resolve) {
            Err(Errno::AGAIN) if tries < 128 => tries += 1,
            other => break other?,
        }
    };
    open_found(&found)
}

fn open_found(found: &OwnedFd) -> io::Result<File> {
    if FileType::from_raw_mode(fstat(found)?.st_mode) != FileType::RegularFile {
        let why = "it is not a regular file";
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    let path = format!("/proc/self/fd/{}", found.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    Ok(File::from(open(path, flags, Mode::empty())?))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use rustix::fs::{CWD, mknodat};

    use super::*;

    /// Returns whether `again`, when called repeatedly, opens this pipe for reading.
    fn is_opened(pipe: &Path, again: impl Fn()) -> bool {
        let is_open = Arc::new(AtomicBool::new(false));
        let (noted, path) = (Arc::clone(&is_open), pipe.to_owned());
        // It blocks until there is a reader, and goes on even if that is gone by then.
        let writer = std::thread::spawn(move || {
            open(&path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()).unwrap();
            noted.store(true, Ordering::SeqCst);
        });
        for _ in 0..50 {
            again();
            std::thread::sleep(Duration::from_millis(4));
        }
        let was_open = is_open.load(Ordering::SeqCst);
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        while !is_open.load(Ordering::SeqCst) {
            open(pipe, flags, Mode::empty()).unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
        writer.join().unwrap();
        was_open
    }

    #[test]
    fn what_is_no_file_is_never_opened() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        symlink("/pipe", dir.path().join("link")).unwrap();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = open(dir.path(), flags, Mode::empty()).unwrap();
        let refused = |opened: io::Result<File>| {
            let error = opened.unwrap_err().to_string();
            assert!(error.contains("not a regular file"), "{error}");
        };
        assert!(!is_opened(&pipe, || refused(open_beneath(&root, b"pipe"))));
        assert!(!is_opened(&pipe, || refused(open_beneath(&root, b"link"))));
        assert!(!is_opened(&pipe, || refused(open_file(&pipe))));
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        assert!(is_opened(&pipe, || drop(open(&pipe, flags, Mode::empty()))));
    }

    #[test]
    fn files_are_opened_within_their_root() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a"), "abc").unwrap();
        symlink("/a", dir.path().join("link")).unwrap();
        symlink("/etc/passwd", dir.path().join("out")).unwrap();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = open(dir.path(), flags, Mode::empty()).unwrap();
        let file = open_beneath(&root, b"link").unwrap();
        assert_eq!(orlop_fs::read_whole(file, 8).unwrap(), b"abc");
        let file = open_file(&dir.path().join("a")).unwrap();
        assert_eq!(orlop_fs::read_whole(file, 8).unwrap(), b"abc");
        let missing = open_beneath(&root, b"out").unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}
