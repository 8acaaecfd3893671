//! Writing a file for good.

use std::fs::{self, File, OpenOptions};
use std::io::{Error, ErrorKind, Result, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Puts a file of this content and mode in a path's place. A crash or a power loss leaves the former
/// file or the new one, and after this has returned the new one. One at a time may write a path.
pub fn write_file(path: &Path, mode: u32, content: &[u8]) -> Result<()> {
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Error::new(ErrorKind::InvalidInput, "not a file's path"));
    };
    // Who lists a directory passes over names with a dot in front.
    let mut draft = std::ffi::OsString::from(".");
    draft.push(name);
    draft.push(".new");
    let draft = dir.join(draft);
    // What a crash left of an earlier one.
    let _ = fs::remove_file(&draft);
    let write = || {
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&draft)?;
        file.write_all(content)?;
        file.sync_data()?;
        fs::rename(&draft, path)
    };
    if let Err(error) = write() {
        let _ = fs::remove_file(&draft);
        return Err(error);
    }
    sync_names(path)
}

/// Removes a file, for good when this returns. It is no error if there is none.
pub fn remove_file(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Ok(()) => sync_names(path),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// A name that is made or removed lasts only once its directory is on disk.
fn sync_names(path: &Path) -> Result<()> {
    match path.parent() {
        Some(dir) if dir.as_os_str().is_empty() => File::open(".")?.sync_all(),
        Some(dir) => File::open(dir)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_file_is_replaced_whole_whatever_a_crash_left() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(dir.path().join(".file.new"), "half").unwrap();
        write_file(&path, 0o600, b"one").unwrap();
        write_file(&path, 0o600, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        remove_file(&path).unwrap();
        remove_file(&path).unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn what_cannot_be_put_in_place_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("taken");
        fs::create_dir(&path).unwrap();
        assert!(write_file(&path, 0o600, b"one").is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
