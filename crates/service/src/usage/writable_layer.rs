//! How much a container has written to its own layer.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use orlop_cri::v1::{FilesystemIdentifier, FilesystemUsage};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, open, openat, statat};

use super::meter::value;
use crate::clock;

/// A layer is counted anew no more often than this: with many files that is work.
const MAX_AGE: Duration = Duration::from_secs(10);

/// Counting takes no more than this part of the time, however many files there are.
const PART: u32 = 100;

/// Directories nested deeper are not counted: somebody is playing games.
const MAX_DEPTH: usize = 512;

/// The last count.
#[derive(Debug, Clone, Copy, Default)]
pub struct WritableLayer {
    /// Nanoseconds since 1970.
    at: i64,
    /// When it is to be counted again.
    due: Option<Instant>,
    count: Count,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Count {
    bytes: u64,
    inodes: u64,
}

impl WritableLayer {
    /// The usage below `upper`, at most a little old.
    pub fn usage(&mut self, upper: impl Fn() -> PathBuf, mountpoint: &Path) -> FilesystemUsage {
        let begin = Instant::now();
        if self.due.is_none_or(|due| begin >= due) {
            self.at = clock::now();
            self.count = count(&upper());
            let end = Instant::now();
            self.due = Some(end + MAX_AGE.max((end - begin) * PART));
        }
        FilesystemUsage {
            timestamp: self.at,
            fs_id: Some(FilesystemIdentifier {
                mountpoint: mountpoint.to_string_lossy().into_owned(),
            }),
            used_bytes: value(self.count.bytes),
            inodes_used: value(self.count.inodes),
        }
    }
}

fn count(upper: &Path) -> Count {
    let mut total = Count::default();
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    if let Ok(directory) = open(upper, flags, Mode::empty()) {
        add(directory, 0, &mut total);
    }
    total
}

/// Adds what is below a directory. The container changes it meanwhile: what vanishes is not
/// counted, and no link is followed.
fn add(directory: std::os::fd::OwnedFd, depth: usize, total: &mut Count) {
    let Ok(entries) = Dir::read_from(&directory) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let Ok(stat) = statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) else {
            continue;
        };
        total.inodes += 1;
        total.bytes += u64::try_from(stat.st_blocks).unwrap_or(0) * 512;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory && depth < MAX_DEPTH {
            let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            if let Ok(below) = openat(&directory, name, flags, Mode::empty()) {
                add(below, depth + 1, total);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_directories_are_counted_and_links_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let upper = dir.path().join("upper");
        std::fs::create_dir_all(upper.join("a/b")).unwrap();
        std::fs::write(dir.path().join("outside"), vec![1; 1 << 20]).unwrap();
        std::os::unix::fs::symlink(dir.path().join("outside"), upper.join("link")).unwrap();
        std::fs::write(upper.join("a/b/file"), vec![1; 100_000]).unwrap();
        let count = count(&upper);
        assert_eq!(count.inodes, 4);
        assert!((100_000..400_000).contains(&count.bytes), "{count:?}");
    }
}
