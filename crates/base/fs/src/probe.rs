//! Whether a disk takes what is written to it, asked without writing.

use std::fs::OpenOptions;
use std::io::{Error, Result};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::io::Errno;

/// The name of a file that is there to be opened for writing.
const FILE: &str = "probe";

/// Makes the file in this directory that [`probe`] opens, if it is not there.
pub fn prepare_probe(dir: &Path) -> Result<()> {
    open(dir, true)
}

/// Fails where the disk below this directory takes no writes any more: the kernel makes one read-only
/// that has failed, or refuses it altogether. What else is in the way, no room say, is told by those
/// who write.
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

/// The flags of a read-only file system are no help: since Linux 6.13 ext4 leaves them as they are
/// when it stops to write.
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
