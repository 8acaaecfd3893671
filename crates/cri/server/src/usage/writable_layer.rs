//! Disk usage of a container: its writable layer, its volumes and its pod's files.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use orlop_cri_api::v1::{FilesystemIdentifier, FilesystemUsage};
use orlop_fs::{Step, Walk};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, lstat, open, statat};

use super::meter::value;
use crate::clock;

/// Minimum time between two counts of a layer, because many files are slow to count.
const MAX_AGE: Duration = Duration::from_secs(10);

/// Counting takes at most one part in this many of the time, however many files there are.
const PART: u32 = 100;

/// The last count of a writable layer.
#[derive(Debug, Clone, Copy, Default)]
pub struct WritableLayer {
    /// Nanoseconds since 1970.
    at: i64,
    /// When the next count is due.
    due: Option<Instant>,
    count: Count,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Count {
    bytes: u64,
    inodes: u64,
}

impl WritableLayer {
    /// Returns the usage of files and directory trees, possibly slightly outdated.
    pub fn usage(
        &mut self,
        paths: impl Fn() -> Vec<PathBuf>,
        mountpoint: &Path,
    ) -> FilesystemUsage {
        let begin = Instant::now();
        if self.due.is_none_or(|due| begin >= due) {
            self.at = clock::now();
            self.count = Count::default();
            for path in paths() {
                self.count.add(&path);
            }
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

impl Count {
    /// Counts a file or directory tree, of any depth. The container may change it meanwhile: files that vanish are not
    /// counted, and links are not followed.
    fn add(&mut self, path: &Path) {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let Ok(directory) = open(path, flags, Mode::empty()) else {
            if let Ok(stat) = lstat(path) {
                self.add_entry(&stat);
            }
            return;
        };
        let Ok(mut walk) = Walk::new(directory) else {
            return;
        };
        while let Ok(Some(step)) = walk.next() {
            let Step::Entry(entry) = step else { continue };
            let Ok(stat) = statat(walk.here(), &entry.name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            self.add_entry(&stat);
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                let _ = walk.enter(&entry.name);
            }
        }
    }

    fn add_entry(&mut self, stat: &Stat) {
        self.inodes += 1;
        self.bytes += u64::try_from(stat.st_blocks).unwrap_or(0) * 512;
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::openat;

    use super::*;

    #[test]
    fn files_and_directories_are_counted_and_links_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let upper = dir.path().join("upper");
        std::fs::create_dir_all(upper.join("a/b")).unwrap();
        std::fs::write(dir.path().join("outside"), vec![1; 1 << 20]).unwrap();
        std::os::unix::fs::symlink(dir.path().join("outside"), upper.join("link")).unwrap();
        std::fs::write(upper.join("a/b/file"), vec![1; 100_000]).unwrap();
        let mut count = Count::default();
        count.add(&upper);
        assert_eq!(count.inodes, 4);
        assert!((100_000..400_000).contains(&count.bytes), "{count:?}");
        let before = count;
        count.add(&upper.join("a/b/file"));
        count.add(&upper.join("nothing"));
        assert_eq!(count.inodes, before.inodes + 1);
        assert!(count.bytes >= before.bytes + 100_000, "{count:?}");
    }

    #[test]
    fn files_count_however_deep_a_container_hides_them() {
        let dir = tempfile::tempdir().unwrap();
        let innermost = orlop_testkit::nest(dir.path(), 1000);
        let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
        let file = openat(innermost, "file", flags, Mode::RUSR).unwrap();
        std::io::Write::write_all(&mut std::fs::File::from(file), &vec![1; 1 << 20]).unwrap();
        let upper = dir.path().to_owned();
        let counted = std::thread::Builder::new()
            .stack_size(128 << 10)
            .spawn(move || {
                let mut count = Count::default();
                count.add(&upper);
                count
            });
        let counted = counted.unwrap().join().unwrap();
        assert_eq!(counted.inodes, 1001);
        assert!(counted.bytes >= 1 << 20, "{counted:?}");
        orlop_fs::remove_tree(&dir.keep()).unwrap();
    }
}
