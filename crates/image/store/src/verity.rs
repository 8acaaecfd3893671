//! Seals files with fs-verity: the kernel then verifies each read and denies all writes.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// `FS_IOC_ENABLE_VERITY` and `FS_IOC_MEASURE_VERITY`.
const ENABLE: libc::Ioctl = 0x4080_6685_u32 as libc::Ioctl;
const MEASURE: libc::Ioctl = 0xc004_6686_u32 as libc::Ioctl;

/// SHA-256 over blocks of this size.
const SHA256: u32 = 1;
const BLOCK: u32 = 4096;

/// Maximum length of a digest in the kernel.
const MAX_DIGEST: usize = 64;

/// `struct fsverity_enable_arg`.
#[repr(C)]
#[derive(Default)]
struct Enable {
    version: u32,
    hash_algorithm: u32,
    block_size: u32,
    salt_size: u32,
    salt: u64,
    signature_size: u32,
    reserved: u32,
    signature: u64,
    more_reserved: [u64; 11],
}

/// `struct fsverity_digest`, with room for the digest.
#[repr(C)]
struct Measured {
    algorithm: u16,
    size: u16,
    digest: [u8; MAX_DIGEST],
}

/// Timeout for child processes that hold a writable descriptor until they execute their program.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(2);

/// Seals a file that is no longer written. Returns its fs-verity digest, or `None` if the filesystem does not support
/// fs-verity. Blocks.
pub(crate) fn seal(file: &File) -> io::Result<Option<String>> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match enable(file) {
            // A child process that was forked during the write holds the descriptor until it calls exec.
            Err(error)
                if error.raw_os_error() == Some(libc::ETXTBSY) && Instant::now() < deadline =>
            {
                std::thread::sleep(PAUSE);
            }
            sealed => return sealed,
        }
    }
}

fn enable(file: &File) -> io::Result<Option<String>> {
    let enable = Enable {
        version: 1,
        hash_algorithm: SHA256,
        block_size: BLOCK,
        ..Enable::default()
    };
    // SAFETY: the kernel reads a structure of this size, which lives until it returns; its pointers are
    // null and of length zero.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), ENABLE, &raw const enable) };
    if done == 0 {
        return measure(file);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        // This kernel or filesystem does not support fs-verity, or not with this block size.
        Some(libc::ENOTTY | libc::EOPNOTSUPP | libc::EINVAL) => Ok(None),
        // The file is sealed already.
        Some(libc::EEXIST) => measure(file),
        _ => Err(error),
    }
}

/// Returns the fs-verity digest of a sealed file in hex, or `None` for other files.
pub(crate) fn measure(file: &File) -> io::Result<Option<String>> {
    let mut measured = Measured {
        algorithm: 0,
        size: MAX_DIGEST as u16,
        digest: [0; MAX_DIGEST],
    };
    // SAFETY: the kernel writes the two fields and at most `size` bytes behind them, which are there.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), MEASURE, &raw mut measured) };
    if done != 0 {
        let error = io::Error::last_os_error();
        return match error.raw_os_error() {
            Some(libc::ENODATA | libc::ENOTTY | libc::EOPNOTSUPP) => Ok(None),
            _ => Err(error),
        };
    }
    let length = usize::from(measured.size).min(MAX_DIGEST);
    Ok(Some(orlop_text::hex::encode(&measured.digest[..length])))
}

#[cfg(test)]
mod tests {
    use orlop_testkit::{Scratch, skip};

    use super::*;

    #[test]
    fn a_file_that_a_child_has_for_a_moment_is_sealed() {
        let ground = Scratch::new();
        let path = ground.path("file");
        std::fs::write(&path, "content").unwrap();
        let file = File::open(&path).unwrap();
        let writer = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        let leaving = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            drop(writer);
        });
        let sealed = seal(&file).unwrap();
        leaving.join().unwrap();
        if sealed.is_none() {
            skip!("the disk of the tests' directories seals no files (fs-verity)");
        }
        assert_eq!(measure(&file).unwrap(), sealed);
        assert_eq!(seal(&file).unwrap(), sealed, "once more");
    }
}
