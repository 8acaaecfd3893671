//! Runtime programs on read-only mounts, so that a container that gets access to the program of a process cannot modify
//! it.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use orlop_fs::detached_read_only;
use parking_lot::Mutex;
use rustix::fs::{fstat, stat};

use super::oci::OciRuntime;

/// Cache of the protected programs of all runtimes.
#[derive(Debug, Default)]
pub struct ProtectedPrograms(Mutex<HashMap<PathBuf, Arc<ProtectedProgram>>>);

impl ProtectedPrograms {
    /// Returns the protected program of a runtime, if the runtime would otherwise execute a protected copy of itself.
    pub fn of(&self, runtime: &OciRuntime) -> Option<Arc<ProtectedProgram>> {
        let path = &runtime.program;
        if !runtime.protects_itself || !path.is_absolute() {
            return None;
        }
        let mut known = self.0.lock();
        if let Some(program) = known.get(path).filter(|program| program.is_current()) {
            return Some(Arc::clone(program));
        }
        let program = Arc::new(ProtectedProgram::open(path).ok()?);
        known.insert(path.clone(), Arc::clone(&program));
        Some(program)
    }
}

/// A runtime program on a read-only mount, opened once and executed by all keepers.
#[derive(Debug)]
pub struct ProtectedProgram {
    path: PathBuf,
    file: OwnedFd,
}

impl ProtectedProgram {
    /// Opens the current file at `path`.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            file: detached_read_only(path)?,
        })
    }

    /// Path of the program.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the path still names the same file.
    #[must_use]
    pub fn is_current(&self) -> bool {
        let there = stat(&self.path).map(|look| (look.st_dev, look.st_ino));
        let own = fstat(&self.file).map(|look| (look.st_dev, look.st_ino));
        matches!((there, own), (Ok(there), Ok(own)) if there == own)
    }

    pub(crate) fn file(&self) -> &OwnedFd {
        &self.file
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsRawFd as _;

    use super::*;

    #[test]
    fn it_cannot_be_written_to_and_is_current_until_another_is_in_its_place() {
        orlop_testkit::skip_unless!(orlop_testkit::machine::is_root());
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("program");
        fs::write(&path, "one").unwrap();
        let program = ProtectedProgram::open(&path).unwrap();
        assert!(program.is_current());
        let again = format!("/proc/self/fd/{}", program.file.as_raw_fd());
        assert_eq!(orlop_fs::read_file(&again, 16).unwrap(), b"one");
        let error = fs::File::options().write(true).open(&again).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ReadOnlyFilesystem);
        let new = dir.path().join("new");
        fs::write(&new, "two").unwrap();
        fs::rename(&new, &path).unwrap();
        assert!(!program.is_current());
    }
}
