//! Keeps a reserve of a disk free while untrusted files are written to it.

use std::io::{Error, ErrorKind, Result};
use std::os::fd::AsFd;

use rustix::fs::fstatvfs;

/// Number of bytes written between checks of the disk; smaller writes are not delayed.
const STRIDE: u64 = 8 << 20;

/// The fixed cost of a file, so that many inodes are noticed.
const ENTRY: u64 = 32 << 10;

/// The reserve of a disk: a twentieth, but no more than this.
const RESERVE: u64 = 1 << 30;
const RESERVE_PART: u64 = 20;

/// Checks from time to time that the disk still has its reserve.
#[derive(Debug)]
pub struct Room {
    /// Bytes written since the last check.
    unchecked: u64,
    /// The reserve of a disk with this many bytes.
    reserve: fn(u64) -> u64,
}

impl Default for Room {
    fn default() -> Self {
        Self::leaving(|size| RESERVE.min(size / RESERVE_PART))
    }
}

impl Room {
    /// Uses another reserve, given the size of a disk.
    pub const fn leaving(reserve: fn(u64) -> u64) -> Self {
        Self {
            unchecked: 0,
            reserve,
        }
    }

    /// Counts a file that is about to be created on the disk of `at`, without its content.
    pub fn entry(&mut self, at: impl AsFd) -> Result<bool> {
        self.content(ENTRY, at)
    }

    /// Counts content that is about to be written. Returns whether the disk was checked, which is rare; fails if the
    /// content would use the reserve.
    pub fn content(&mut self, more: u64, at: impl AsFd) -> Result<bool> {
        self.unchecked = self.unchecked.saturating_add(more);
        if self.unchecked < STRIDE {
            return Ok(false);
        }
        self.unchecked = 0;
        let disk = fstatvfs(at)?;
        let (size, free) = (disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize);
        let reserve = (self.reserve)(size);
        if free < reserve.saturating_add(more) {
            let problem = format!(
                "the disk has {} MiB free, of which {} MiB are reserved, but {} MiB more must be \
                 written",
                free >> 20,
                reserve >> 20,
                more >> 20
            );
            return Err(Error::new(ErrorKind::StorageFull, problem));
        }
        // Some file systems have no inode count.
        if disk.f_files > 0 && disk.f_favail < disk.f_files / RESERVE_PART {
            let problem = format!(
                "the disk has {} of {} inodes free; one in {RESERVE_PART} is reserved",
                disk.f_favail, disk.f_files
            );
            return Err(Error::new(ErrorKind::StorageFull, problem));
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_take_of_the_reserve_is_refused_before_it_is_written() {
        let dir = std::fs::File::open(std::env::temp_dir()).unwrap();
        let mut room = Room::leaving(|_| 0);
        assert!(!room.content(1, &dir).unwrap());
        assert!(room.content(STRIDE, &dir).unwrap());
        assert!(!room.entry(&dir).unwrap());
        let full = room.content(1 << 60, &dir).unwrap_err();
        assert_eq!(full.kind(), ErrorKind::StorageFull);
        assert!(full.to_string().contains("are reserved"), "{full}");
        let mut many = Room::leaving(|_| u64::MAX);
        let looked = (0..STRIDE / ENTRY).map(|_| many.entry(&dir));
        assert_eq!(looked.filter(Result::is_err).count(), 1);
        assert_eq!((Room::default().reserve)(10 << 40), 1 << 30);
        assert_eq!((Room::default().reserve)(1 << 30), (1 << 30) / 20);
    }
}
