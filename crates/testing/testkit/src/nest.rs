//! Directory trees that are too deep for a stack or a path, as programs in containers can create them.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags, mkdirat, openat};

/// Creates `depth` nested directories named `d`, and returns the innermost.
pub fn nest(top: &Path, depth: usize) -> OwnedFd {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = File::open(top).unwrap_or_else(|e| panic!("opening {}: {e}", top.display()));
    let mut here = OwnedFd::from(opened);
    for _ in 0..depth {
        mkdirat(&here, "d", Mode::RWXU).expect("make a directory");
        here = openat(&here, "d", flags, Mode::empty()).expect("open it");
    }
    here
}
