//! How much a container has written to its own layer.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use orlop_cri::v1::{FilesystemIdentifier, FilesystemUsage};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, open, openat, statat};

use super::meter::value;
use crate::clock;

/// Counting is work: it is done anew no sooner than after this, and after a hundred times what
/// it took.
const FRESH: Duration = Duration::from_secs(10);
/// Directories nested deeper are not counted: somebody is playing games.
const MAX_DEPTH: usize = 512;

/// The last count.
#[derive(Debug, Default)]
pub(super) struct Layer {
    until: Option<Instant>,
    at: i64,
    count: Count,
}

#[derive(Debug, Clone, Copy, Default)]
struct Count {
    bytes: u64,
    inodes: u64,
}

impl Layer {
    /// The usage below `upper`, at most a little old.
    pub(super) fn usage(&mut self, upper: &Path, mountpoint: &str) -> FilesystemUsage {
        self.refresh(upper);
        FilesystemUsage {
            timestamp: self.at,
            fs_id: Some(FilesystemIdentifier {
                mountpoint: mountpoint.to_owned(),
            }),
            used_bytes: value(self.count.bytes),
            inodes_used: value(self.count.inodes),
        }
    }

    /// The bytes below `upper`, at most a little old.
    pub(super) fn bytes(&mut self, upper: &Path) -> u64 {
        self.refresh(upper);
        self.count.bytes
    }

    fn refresh(&mut self, upper: &Path) {
        let now = Instant::now();
        if self.until.is_none_or(|until| until <= now) {
            self.count = count(upper);
            self.at = clock::now();
            self.until = Some(now + FRESH.max(now.elapsed() * 100));
        }
    }
}

const FLAGS: OFlags = OFlags::DIRECTORY
    .union(OFlags::RDONLY)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOFOLLOW);

fn count(upper: &Path) -> Count {
    let mut total = Count::default();
    if let Ok(directory) = open(upper, FLAGS, Mode::empty()) {
        add(&directory, 0, &mut total);
    }
    total
}

/// Adds what is below a directory. The container changes it meanwhile: what vanishes is not
/// counted, and no link is followed.
fn add(directory: &OwnedFd, depth: usize, total: &mut Count) {
    let Ok(entries) = Dir::read_from(directory) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let Ok(stat) = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) else {
            continue;
        };
        total.inodes += 1;
        total.bytes += u64::try_from(stat.st_blocks).unwrap_or(0) * 512;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory
            && depth < MAX_DEPTH
            && let Ok(below) = openat(directory, name, FLAGS, Mode::empty())
        {
            add(&below, depth + 1, total);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_counted_and_links_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let upper = dir.path().join("upper");
        std::fs::create_dir_all(upper.join("a")).unwrap();
        std::fs::write(dir.path().join("outside"), vec![1; 1 << 20]).unwrap();
        std::os::unix::fs::symlink(dir.path().join("outside"), upper.join("link")).unwrap();
        std::fs::write(upper.join("a/file"), vec![1; 100_000]).unwrap();
        let mut layer = Layer::default();
        let usage = layer.usage(&upper, "/m");
        assert_eq!(usage.inodes_used.unwrap().value, 3);
        let bytes = usage.used_bytes.unwrap().value;
        assert!((100_000..400_000).contains(&bytes), "{bytes}");
        std::fs::write(upper.join("more"), "x").unwrap();
        assert_eq!(
            layer.usage(&upper, "/m").inodes_used.unwrap().value,
            3,
            "not yet"
        );
    }
}
