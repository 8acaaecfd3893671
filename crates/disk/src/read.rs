//! Reading a file that somebody else chose.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, fstat, open};

/// Opens what a path names for reading if it is a regular file. Does not wait where it is a fifo, and
/// does nothing to a device.
pub fn open_file(path: &Path) -> Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = open(path, flags, Mode::empty())?;
    if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::RegularFile {
        return Err(Error::new(ErrorKind::InvalidInput, "not a regular file"));
    }
    Ok(File::from(file))
}

/// All of a regular file, if that is no more than `limit` bytes.
pub fn read_file(path: &Path, limit: u64) -> Result<Vec<u8>> {
    let mut read = Vec::new();
    open_file(path)?
        .take(limit.saturating_add(1))
        .read_to_end(&mut read)?;
    if read.len() as u64 > limit {
        let message = format!("larger than the {limit} bytes that are read of it");
        return Err(Error::new(ErrorKind::FileTooLarge, message));
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, mknodat};

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
    fn a_fifo_in_a_file_s_place_keeps_nobody_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fifo");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR, 0).unwrap();
        let error = read_file(&path, 5).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
}
