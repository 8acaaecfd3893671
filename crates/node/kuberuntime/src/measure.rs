//! Measures the disk usage of directory trees that containers write to.

use std::ffi::CStr;
use std::path::Path;

use orlop_fs::{Step, Walk};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, open, statat};

/// Maximum number of files to count per tree when many pods are measured at once.
pub const IN_A_HURRY: usize = 200_000;

/// The result of a measurement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Measured {
    /// Bytes on disk. A file with several hard links counts in parts.
    pub bytes: u64,
    /// Number of files, directories and other entries.
    pub inodes: u64,
}

/// The directory with bind mounts of volume subpaths. They are counted in their volumes, and may
/// lie on file systems that do not respond.
const BOUND: &CStr = c"volume-subpaths";

/// Measures a directory on its own file system, without following links. Depth is unlimited; only
/// the first `most` entries count. Blocks.
pub fn measure(directory: &Path, most: usize) -> Measured {
    let mut total = Measured::default();
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let Ok(top) = open(directory, flags, Mode::empty()) else {
        return total;
    };
    let (Ok(of_top), Ok(mut walk)) = (fstat(&top), Walk::new(&top)) else {
        return total;
    };
    let mut counted = 0;
    while let Ok(Some(step)) = walk.next() {
        let Step::Entry(entry) = step else { continue };
        if walk.depth() == 0 && entry.name.as_c_str() == BOUND {
            continue;
        }
        counted += 1;
        if counted > most {
            break;
        }
        let stat = statat(walk.here(), &entry.name, AtFlags::SYMLINK_NOFOLLOW);
        let Some(stat) = stat.ok().filter(|stat| stat.st_dev == of_top.st_dev) else {
            continue;
        };
        total.inodes += 1;
        total.bytes += u64::try_from(stat.st_blocks).unwrap_or(0) * 512 / stat.st_nlink.max(1);
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            // An entry that was removed meanwhile uses no space.
            let _ = walk.enter(&entry.name);
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustix::fs::openat;

    use super::*;

    #[test]
    fn all_that_is_beneath_counts_once() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("a")).unwrap();
        fs::write(dir.path().join("a/b"), vec![1; 100_000]).unwrap();
        fs::hard_link(dir.path().join("a/b"), dir.path().join("again")).unwrap();
        std::os::unix::fs::symlink("/", dir.path().join("a/link")).unwrap();
        let all = measure(dir.path(), 100);
        assert_eq!(all.inodes, 4);
        assert!((100_000..150_000).contains(&all.bytes), "{all:?}");
        assert_eq!(measure(dir.path(), 2).inodes, 2);
        let none = measure(&dir.path().join("none"), 100);
        assert_eq!(none, Measured::default());
    }

    #[test]
    fn a_file_counts_sixty_thousand_directories_down() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let innermost = orlop_testkit::nest(dir.path(), 60_000);
        let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
        let file = openat(innermost, "file", flags, Mode::RUSR).unwrap();
        std::io::Write::write_all(&mut fs::File::from(file), &vec![1; 1 << 20]).unwrap();
        let top = dir.path().to_owned();
        let measured = std::thread::Builder::new()
            .stack_size(128 << 10)
            .spawn(move || measure(&top, 1_000_000));
        let measured = measured.unwrap().join().unwrap();
        assert_eq!(measured.inodes, 60_001);
        assert!(measured.bytes >= 1 << 20, "{measured:?}");
        orlop_fs::remove_tree(&dir.keep()).unwrap();
    }
}
