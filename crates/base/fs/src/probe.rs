//! Checks if a disk accepts writes, without writing.

use std::fs::OpenOptions;
use std::io::{Error, Result};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::io::Errno;

/// The name of the file that is opened for writing.
const FILE: &str = "probe";

/// Creates the file in this directory that [`probe`] opens, if it is missing.
pub fn prepare_probe(dir: &Path) -> Result<()> {
    open(dir, true)
}

/// Fails if the disk of this directory no longer accepts writes: the kernel makes a failed disk read-only, or refuses
/// access. Other problems, such as a full disk, are reported by writers.
pub fn probe(dir: &Path) -> Result<()> {
    let is_refusal = |error: &Error| {
        let errno = Errno::from_io_error(error);
        matches!(errno, Some(Errno::ROFS | Errno::IO))
    };
    match open(dir, false) {
        Err(error) if is_refusal(&error) => Err(error),
        _ => Ok(()),
    }
}

/// Opens the file. The flags of a read-only file system do not help: since Linux 6.13 ext4 leaves them unchanged when
/// it stops writing.
fn open(dir: &Path, create: bool) -> Result<()> {
    let mut options = OpenOptions::new();
    let no_link = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    options.write(true).create(create).mode(0o600);
    options.custom_flags(no_link).open(dir.join(FILE)).map(drop)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use orlop_testkit::{Scratch, machine, skip_unless};

    use super::*;

    #[test]
    fn a_disk_that_takes_no_writes_is_told_from_one_that_does() {
        skip_unless!(machine::is_root());
        let scratch = Scratch::new();
        let dir = scratch.subdir("disk");
        let mount = |options: &str| {
            let mut mount = Command::new("mount");
            mount
                .args(["-t", "tmpfs", "-o", options, "small"])
                .arg(&dir);
            assert!(mount.status().unwrap().success());
        };
        mount("size=1m");
        probe(&dir).expect("nobody has prepared it");
        prepare_probe(&dir).unwrap();
        prepare_probe(&dir).unwrap();
        probe(&dir).unwrap();
        mount("remount,ro");
        let told = probe(&dir).unwrap_err();
        assert_eq!(told.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
        mount("remount,rw");
        probe(&dir).unwrap();
    }
}
